/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the calling thread is attached to an interpreter: what each hook of CPython's domains
 * asks, so that a call without the GIL is found. The thread remembers the state that it was found
 * attached to; where CPython keeps the current state is found out, so that the frequent case calls
 * nobody.
 *
 * Owns what a thread remembers and where to look, which is written while the hooks are installed
 * (fixed) or by any thread (word). Any thread, at any stage, without a lock.
 */
#ifndef HOMEFREE_LOADER_DIAGNOSE_ATTACHED_H
#define HOMEFREE_LOADER_DIAGNOSE_ATTACHED_H

#include "alloc/base/seal.h"
#include "loader/host/cpython.h"

#include <stdatomic.h>
#include <string.h>

/* The state of the calling thread that was found to be attached last; never NULL. Its address may
 * be that of another thread's state later; a call without the GIL is missed then. */
extern __thread const void *hf_attached
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Since 3.12 the current state is a thread-local variable: its distance from the thread pointer,
 * the same in all threads. While that is unknown, the distance of a variable that is NULL. */
extern _Atomic(intptr_t) hf_attached_word __attribute__((visibility("hidden")));

/* Before 3.12 it is a variable of the process, whoever holds the GIL; NULL if it is unknown. */
union hf_attached_table {
    const void *const *fixed;
    char pages[HF_SEAL_SIZE(const void *const *)];
};
extern union hf_attached_table hf_attached_table __attribute__((visibility("hidden")));

static inline const char *hf_thread_pointer(void)
{
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ < 11
    /* GCC has the builtin on x86-64 from 11 on. The word at the thread pointer is its own address.
     */
    const char *pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return __builtin_thread_pointer();
#endif
}

static inline const void *hf_attached_read(intptr_t offset)
{
    const void *value;
    memcpy(&value, hf_thread_pointer() + offset, sizeof value);
    return value;
}

/* Whether the thread is attached to the state that was found last: by the thread's word, or by the
 * process's variable, which must be known. False says nothing. */
static inline bool hf_attached_by_word(void)
{
    return hf_attached_read(atomic_load_explicit(&hf_attached_word, memory_order_relaxed)) ==
           hf_attached;
}
static inline bool hf_attached_by_fixed(void)
{
    return __atomic_load_n(hf_attached_table.fixed, __ATOMIC_RELAXED) == hf_attached;
}

/* Whether the thread may call CPython. */
bool hf_attached_find(const struct hf_cpython *cpython);

/* Learns where to look. Before any thread asks. Returns whether that is hf_attached_by_fixed(). */
bool hf_attached_start(const struct hf_cpython *cpython);

#endif
