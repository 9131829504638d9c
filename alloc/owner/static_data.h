/*
 * free() of what no allocator gave out: static data and stacks.
 *
 * glibc ends the process then, with a line that names nothing. The commonest cause is two copies of
 * the C++ runtime in one process, where one destroys what the other keeps in static storage. So a
 * pointer that is about to reach glibc's free() or realloc() is looked at first, in two steps: one
 * word in front of it that glibc reads next anyway, and only if no block of glibc's can have that
 * word, whose memory it is.
 *
 * Constraint: the first step is part of every free() of the process. It may only run where glibc's
 * own free() comes next: other allocators keep nothing in front of a block, which may begin where a
 * mapping does.
 */
#ifndef HOMEFREE_STATIC_DATA_H
#define HOMEFREE_STATIC_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether a function is the one of that name of this namespace's glibc, and glibc's blocks look as
 * expected. Before relocation is over the answer is no. */
bool hf_static_guards(const char *name, const void *function);

/*
 * Whether glibc cannot have given out `ptr`, which is not NULL: the word in front of a block is its
 * size, which is never 0 and never 2^46 or more. The word in front of static data is mostly 0, text
 * or a pointer. A false answer means nothing.
 *
 * Each step is one simple instruction on every processor. A bit scan would save one of them, but
 * several AMD processors take longer for it than for all the rest of a stub. The word is outside of
 * any object that a sanitizer knows.
 */
__attribute__((no_sanitize("address"))) static inline bool hf_static_suspect(const void *ptr)
{
    uint64_t word;
    memcpy(&word, (const char *)ptr - sizeof word, sizeof word);
    return (word - 1) >> 46 != 0;
}

/*
 * What to do about a suspect pointer. Static data and stacks end the process with a line that says
 * whose they are, or with HOMEFREE_CONF=static_free:ignore are left alone. Result: true when the
 * call must do nothing more; false where glibc has to judge. errno is kept.
 *   call    "free" or "realloc"
 *   caller  an address in the code that called
 */
bool hf_static_freed(const void *ptr, const char *call, const void *caller)
    __attribute__((cold, noinline));

/* The same for realloc: *moved becomes a block of glibc's with as much of the contents as there can
 * be, or NULL. */
bool hf_static_resized(const void *ptr, size_t size, const void *caller, void **moved)
    __attribute__((cold, noinline));

#endif
