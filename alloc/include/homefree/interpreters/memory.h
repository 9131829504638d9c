/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/interpreters/memory.h - what memory each interpreter has, may have, and leaves behind.
 *
 * Interpreters are named by CPython's numbers (hf_interpreter_current()). The rules are those of
 * homefree/interpreters.h.
 */
#ifndef HOMEFREE_INTERPRETERS_MEMORY_H
#define HOMEFREE_INTERPRETERS_MEMORY_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Lets what an interpreter of a group has stay when it has ended: its arenas and its blocks of more
 * than 512 bytes. Otherwise they go back, but for those to which static data refers.
 *
 * For modules that outlive the interpreter and may have taken memory over, which they keep in lists
 * of their own. With such a module's handle, all stays only if that is possible: when the
 * interpreter has ended, the module's data refers to memory, or it may have threads or thread-local
 * data, or it needs libraries other than the system's. Executors call it for each extension module
 * that is no private copy and not the standard library's.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it (hf_interpreter_current())
 *   handle       in: of the module, from dlopen(), which stays open; NULL: all stays
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOENT  it is none of a group's, or its memory is not the heap's: it stays anyway
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_keep(int64_t interpreter, void *handle);

/* An object because of which memory of ended interpreters stays. Caller-sized. */
struct hf_interpreter_leak {
    size_t size;
    const char *object;    /* its path; permanent */
    const char *why;       /* a sentence; permanent */
    uint64_t interpreters; /* that have ended */
    uint64_t bytes;        /* of theirs; if several objects keep an interpreter's, each has all */
};

/* What hf_interpreters_leaks() calls for each. A result other than 0 ends it. */
typedef int hf_interpreter_leak_visitor(void *context, const struct hf_interpreter_leak *leak);

/*
 * Tells which objects keep memory of interpreters of groups that have ended, and why: private
 * copies that cannot be made new, modules for which hf_interpreters_keep() was called, and objects
 * whose static data refers to something. Not counted is what they have taken from malloc().
 *
 * Parameters:
 *   visit    in: called for each, in the calling thread
 *   context  in: for visit
 * Result: 0, or what the visitor returned if it ended the visit; or a negative errno.
 * Errors:
 *   -EINVAL  visit is NULL
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_leaks(hf_interpreter_leak_visitor *visit, void *context);

/* What is there of an interpreter that has ended. Caller-sized. */
struct hf_interpreter_left {
    size_t size;
    uint64_t blocks; /* of pymalloc, which are still in use */
    uint64_t arenas; /* in which they are */
    uint64_t bytes;  /* of these arenas */
    uint64_t leaked; /* blocks of all ended interpreters that others have freed since */
};

/*
 * Counts the arenas of small objects of an interpreter that has ended, and gives them back on
 * request. Those of a group's interpreter have gone back when it ended, but for those to which
 * static data refers.
 *
 * Giving back is right only if nobody uses these blocks any more. CPython before 3.12.4 does (its
 * issue 119213), and so may a module that keeps an object in a static variable.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it (hf_interpreters_stats(), hf_interpreter_current())
 *   give_back    in: whether to give the arenas back
 *   out          out: what was there; its size member is set by the caller; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  the size of out is too small
 *   -EBUSY   the interpreter has not ended
 *   -ENOENT  nothing of it is known: it left nothing, the heap was not installed, or CPython is
 *            older than 3.12 or free-threaded
 * Frees: with give_back, the arenas.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_left(int64_t interpreter, bool give_back,
                                struct hf_interpreter_left *out);

/* The memory of a living interpreter, in bytes. Caller-sized. */
struct hf_interpreter_memory {
    size_t size;
    int64_t id;        /* CPython's number for it; 0 is the main interpreter */
    unsigned index;    /* in its group */
    unsigned count;    /* interpreters that its group was made with; 0: it is in none */
    uint64_t live;     /* objects + blocks + counted */
    uint64_t resident; /* of arenas, blocks and counted: pages that are in memory */
    uint64_t objects;  /* of pymalloc, in arenas: at most 512 bytes each */
    uint64_t arenas;   /* address space of pymalloc's arenas */
    uint64_t blocks;   /* in its own heap: objects of more than 512 bytes */
    uint64_t counted;  /* with a limit: NumPy's arrays made there, and what its objects allocate
                          (hf_interpreters_limit_object()); without one, 0: nobody knows */
    uint64_t limit;    /* HF_LIMIT_NONE: none */
    uint64_t used;     /* with a limit, what counts: arenas as a whole, blocks, counted; else 0 */
    uint64_t peak;     /* the most that ever counted */
    uint64_t refused;  /* allocations that were refused */
    bool is_counted;   /* it has a limit, HF_LIMIT_NONE perhaps; a parked one has none any more */
};

/* What hf_interpreters_memory() calls for each interpreter. A result other than 0 ends it. */
typedef int hf_interpreter_memory_visitor(void *context,
                                          const struct hf_interpreter_memory *memory);

/*
 * Tells what memory each living interpreter has: the main one, those of groups, and those that
 * others have made and that are known (hf_interpreters_hold()).
 *
 * Not counted are arenas that interpreters other than the main one got before hf_python_install();
 * in the main interpreter and those of others, blocks of more than 512 bytes; without a limit,
 * NumPy's arrays; what C code allocates, but for objects of hf_interpreters_limit_object(); the RAW
 * domain of Python's; threads' stacks, code and data of modules; and what allocators other than the
 * heap have. Blocks of at most 32 KiB count as resident. With HF_ENGINE_THREADS there is the main
 * interpreter alone, of which nothing is known.
 *
 * Parameters:
 *   visit    in: called for each, in the calling thread
 *   context  in: for visit
 * Result: 0 when every interpreter was visited; what the visitor returned if it ended the visit; or
 *   a negative errno.
 * Errors:
 *   -EINVAL   visit is NULL
 *   -ENOMEM   there is no memory
 *   -ENOTSUP  this installation has no libhomefree-interpreters.so
 * Frees: nothing.
 * Threads: safe; looks at each block of the heap, and waits for nobody: what others do meanwhile is
 *   counted or not.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_memory(hf_interpreter_memory_visitor *visit, void *context);

/*
 * Changes how much memory an interpreter may have that was made with a limit.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it (hf_interpreter_current(), hf_interpreters_stats())
 *   bytes        in: HF_LIMIT_NONE (homefree/limit.h): any
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOENT  there is no such interpreter, or it was made without memory_limit, or is parked
 *   -ENOMEM  it has more than that: whatever it asks for is refused until enough was freed
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_limit(int64_t interpreter, uint64_t bytes);

/*
 * Lets what a loaded object allocates, from now on, count for an interpreter that has a limit. The
 * object is adopted (homefree/adopt.h) and is the interpreter's alone, as a private copy is.
 * Executors call it for each private copy.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it (hf_interpreter_current())
 *   handle       in: from dlopen()
 * Result: 0 or a negative errno; then nothing that it allocates counts.
 * Errors:
 *   -EINVAL  handle does not denote a loaded object
 *   -ENOENT  there is no such interpreter, or it was made without memory_limit
 *   -EXDEV   the object allocates nothing
 *   others   as hf_adopt() and hf_limit_add()
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_limit_object(int64_t interpreter, void *handle);

#ifdef __cplusplus
}
#endif

#endif
