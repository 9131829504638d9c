/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sites of interpreters: the number of a block that a module allocated while its thread worked in
 * an interpreter stands for the site and for that interpreter, so that it is known what is left
 * when the interpreter has ended (leaks.h). Only looked for with `--leaks`; without,
 * no thread moves, and nothing here costs anything but a load for calls that are new.
 *
 * Owns the table of these numbers, which are never used twice. Any thread; takes the records' lock
 * for a new number. What finds no room counts as allocated in no interpreter.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_INTERPRETER_SITES_H
#define HOMEFREE_ALLOC_DIAGNOSE_INTERPRETER_SITES_H

#include <stdint.h>

/* The calling thread's interpreter, by CPython's number; 0: the main one, or none. */
extern __thread uint32_t hf_interpreter_now
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread works in that interpreter from now on; 0: in the main one, or in none. */
void hf_interpreter_sites_move(uint32_t interpreter);

/* The number for a block that the calling thread allocates at a site or deep site. */
uint32_t hf_interpreter_site(uint32_t number);

/* The interpreter that a number stands for, 0: none; and the site or deep site. */
uint32_t hf_interpreter_of_site(uint32_t number);
uint32_t hf_interpreter_site_base(uint32_t number);

#endif
