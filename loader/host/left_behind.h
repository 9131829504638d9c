/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an interpreter that has ended leaves behind: its arenas of small objects, and its heap
 * (interpreter_heaps.h). CPython before 3.14 gives neither back. And which objects keep memory of
 * such interpreters, and why.
 */
#ifndef HOMEFREE_LOADER_HOST_LEFT_BEHIND_H
#define HOMEFREE_LOADER_HOST_LEFT_BEHIND_H

#include <homefree/interpreters/memory.h>
#include <stdint.h>

/*
 * Any thread that is attached to nothing, once an interpreter; takes the dynamic loader's lock.
 * Gives back what an interpreter left that nobody refers to. What the static data of any object
 * refers to stays, with all that this refers to in turn: CPython before 3.12.4 keeps tuples of
 * ended interpreters there (its issue 119213), and so may a module that keeps an object. An arena
 * stays as a whole; hf_pymalloc_left() counts those, and hf_leavings_each() has whose data it is.
 * Of an interpreter that is kept (hf_interpreter_heap_keep()) all stays; the result is how many
 * bytes, or else 0.
 */
uint64_t hf_left_behind_give_back(int64_t interpreter);

/* One more interpreter has left so many bytes because of an object. why: a literal. Without memory
 * or a free row, nothing is noted. Any thread, as the next. */
void hf_leavings_add(const char *object, const char *why, uint64_t bytes);

/* As hf_interpreters_leaks(). */
int hf_leavings_each(hf_interpreter_leak_visitor *visit, void *context);

#endif
