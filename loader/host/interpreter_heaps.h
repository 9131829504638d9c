/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A heap of its own for each interpreter that a group has made: what pymalloc does not serve itself
 * (objects of more than 512 bytes, tables of dictionaries, code), and pymalloc's tree of arenas,
 * lie there, and are given back when the interpreter has ended (left_behind.h). The RAW domain
 * proper is not in it: its memory may cross interpreters. If the interpreter has a limit
 * (homefree/limit.h), all of that counts for it, with its arenas and its NumPy arrays.
 *
 * pymalloc gets such blocks from the RAW domain, whose hook (domains.c) tells them by the address
 * that the call returns to. interpreter_heaps.c owns these addresses and the table of heaps.
 * Looking up takes no lock; the table changes under its lock.
 */
#ifndef HOMEFREE_LOADER_HOST_INTERPRETER_HEAPS_H
#define HOMEFREE_LOADER_HOST_INTERPRETER_HEAPS_H

#include "alloc/heap/front_end.h"
#include "loader/host/cpython.h"

#include <stdatomic.h>

struct hf_limit;

/* Whether the hook of the RAW domain asks here first: somebody has, or gets, a heap of its own. */
extern atomic_bool hf_interpreter_heaps __attribute__((visibility("hidden")));

/* A block of the heap of the interpreter that the calling thread is attached to; NULL if it would
 * be above the limit. False if the interpreter has no heap, if what calls is not CPython's object
 * allocator, or if the heap has no memory. caller: where the hook returns to. */
bool hf_interpreter_heap_take(void **out, size_t size, bool zeroed, const void *caller);

/*
 * Makes a heap for an interpreter that the calling thread is about to make, and gives it to the one
 * of that number; -1: none was made. Between the two, what the thread allocates in an interpreter
 * without a heap goes there. One thread at a time, attached to the main interpreter and then to the
 * new one. That there is no heap is no error, without a limit: then the blocks are the common
 * heap's, as before. limit: with its number; NULL for none; the heap does not own it. The first one
 * returns 0; -ENOTSUP: with the object allocator that CPython uses, nobody could tell whose a block
 * is, and so not whether it is above the limit; or -ENOMEM. The second one returns whether the
 * interpreter has got the heap.
 */
int hf_interpreter_heap_prepare(struct hf_limit *limit, unsigned number);
bool hf_interpreter_heap_begin(int64_t interpreter);

/* An interpreter gets an arena, for which CPython asks for nodes of a tree next. False: it would be
 * above the limit; the arena counts until it is given back. */
bool hf_interpreter_heap_arena(int64_t interpreter, size_t size);
void hf_interpreter_heap_arena_ends(int64_t interpreter, size_t size);

/* The limit of an interpreter, and its number, HF_LIMITS_COUNT if there is none; and its heap, or
 * NULL. Any thread; the interpreter lives. */
struct hf_limit *hf_interpreter_heap_limit(int64_t interpreter, unsigned *number);
struct hf_heap *hf_interpreter_heap_of(int64_t interpreter);

/* From now on the interpreter has no limit; the result is the one that it had, or NULL. The calling
 * thread is attached to it, so that nobody allocates there meanwhile. */
struct hf_limit *hf_interpreter_heap_unlimit(int64_t interpreter);

/* A block that was just taken counts for a limit; NULL with ENOMEM if it would be above that: the
 * block is freed. */
void *hf_interpreter_heap_count(unsigned limit, void *block);

/* What the interpreter has stays when it has ended. False: it has no heap of its own. */
bool hf_interpreter_heap_keep(int64_t interpreter);

/* Takes the heap of an interpreter that has ended off the table; NULL if it had none. `is_kept`
 * receives whether it is to stay. */
struct hf_heap *hf_interpreter_heap_end(int64_t interpreter, bool *is_kept);

#endif
