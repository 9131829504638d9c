/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an interpreter that has ended left behind (interpreter-leak): live blocks that modules
 * allocated while their threads worked in it. Owns nothing afterwards.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_INTERPRETER_LEAKS_H
#define HOMEFREE_ALLOC_DIAGNOSE_INTERPRETER_LEAKS_H

#include <stdbool.h>
#include <stdint.h>

/* Records them, each as a finding. is_held: whether somebody outside of the interpreter holds a
 * block on purpose. Others may run; if another thread is looking at all blocks, nothing is found.
 */
void hf_interpreter_leaks_find(uint32_t interpreter, bool (*is_held)(const void *block));

#endif
