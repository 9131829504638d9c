/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the malloc family and the operators of a diagnosed process tell other units.
 *
 * Any thread, at any stage; takes no lock.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_PROCESS_H
#define HOMEFREE_ALLOC_DIAGNOSE_PROCESS_H

#include <stdbool.h>

/* Whether the program, or an object in front of this library, has an operator or a malloc() of its
 * own. The operators here then only pass on to the C++ runtime's. */
bool hf_process_has_operators(void);

#endif
