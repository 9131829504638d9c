/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Detects free() of pointers that no allocator returned: static data and stacks.
 *
 * glibc would end the process with a line that names nothing. The commonest cause is two copies of
 * the C++ runtime in one process, one of which destroys what the other keeps in static storage. So
 * a pointer that is about to reach glibc's free() or realloc() is checked in two steps: the word
 * before it, which glibc reads next anyway; and only if no block of glibc's can have that word, the
 * owner of the memory.
 *
 * Constraint: the first step is part of every free() of the process. It may run only where glibc's
 * own free() comes next: other allocators keep nothing before a block, which may begin at the start
 * of a mapping.
 *
 * static_data.c owns one flag and takes no lock. Any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_OWNER_STATIC_DATA_H
#define HOMEFREE_ALLOC_OWNER_STATIC_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether a function is this namespace's glibc function of that name, and glibc's blocks have their
 * usual layout. Always false before relocation is complete. */
bool hf_static_guards(const char *name, const void *function);

/*
 * Whether glibc cannot have returned `ptr`, which is not NULL: the word before a block is its size,
 * which is never 0 and never 2^46 or more. The word before static data is mostly 0, text or a
 * pointer. False proves nothing.
 *
 * Each step is one simple instruction on every processor. A bit scan would save one, but on several
 * AMD processors it takes longer than the rest of a stub. The word lies outside any object that a
 * sanitizer knows.
 */
__attribute__((no_sanitize("address"))) static inline bool hf_static_suspect(const void *ptr)
{
    uint64_t word;
    memcpy(&word, (const char *)ptr - sizeof word, sizeof word);
    return (word - 1) >> 46 != 0;
}

/*
 * Handles a suspect pointer. If it is static data or on a stack, ends the process with a line that
 * says whose it is, or with HOMEFREE_CONF=static_free:ignore does nothing. Returns true if the call
 * is handled, false if glibc must decide. Preserves errno.
 *   call    "free" or "realloc"
 *   caller  an address in the calling code
 */
bool hf_static_freed(const void *ptr, const char *call, const void *caller)
    __attribute__((cold, noinline));

/* The same for realloc: *moved becomes a block of glibc's with as much of the contents as is
 * readable, or NULL. */
bool hf_static_resized(const void *ptr, size_t size, const void *caller, void **moved)
    __attribute__((cold, noinline));

#endif
