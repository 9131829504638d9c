/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/limit.h - how much of the heap one library may have.
 *
 *     struct hf_limit *limit;
 *     struct hf_limit_options options = {.size = sizeof options, .mode = HF_LIMIT_REFUSE};
 *     if (hf_limit_begin(&limit, "/usr/lib/libparser.so", 256 << 20, &options) == 0) {
 *         …                      // what the library allocates beyond 256 MiB is refused: NULL,
 * ENOMEM (void)hf_limit_end(limit);
 *     }
 *
 * A limit counts the live blocks that its objects allocate, by their sizes, which are rounded up:
 * to a class, by at most an eighth, or above 32 KiB to pages of 4 KiB. Its objects are shared
 * objects that are linked with the shim, or adopted (homefree/adopt.h); in whole-process mode all
 * are. A block counts from the call that allocates it until it is freed, whoever frees it, on
 * whatever thread, and realloc() of any object resizes it within the limit. What an object
 * allocated before its limit began, or gets from another object's functions, does not count, until
 * it resizes it. What libc's functions return that make text (asprintf, getline, realpath) and what
 * the object gets from mmap() does not count either.
 *
 * The count is exact, but that each thread may have a page of 4 KiB at hand, which counts already.
 * It is never too low. Objects without a limit, and processes without one, have no instruction for
 * it on the fast paths.
 *
 * A call that is refused returns NULL with ENOMEM, as malloc(3) does: operator new calls the new
 * handler or throws std::bad_alloc, Python raises MemoryError, and what Rust's standard collections
 * do is end the process. A refused realloc() leaves its block as it was.
 */
#ifndef HOMEFREE_LIMIT_H
#define HOMEFREE_LIMIT_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_limit;

#define HF_LIMIT_NONE UINT64_MAX /* a limit that only counts */

/* What happens to an allocation that would be above the limit. */
enum hf_limit_mode {
    HF_LIMIT_REFUSE = 0, /* it is refused */
    HF_LIMIT_WARN = 1,   /* it succeeds */
    HF_LIMIT_TRIM = 2    /* hf_trim() and the callback are called; then it is tried again, and
                            refused if it is still above the limit */
};

/* What is known of a limit. Fields may be added at the end. */
struct hf_limit_state {
    size_t size;        /* of this struct: set it before the call */
    const char *name;   /* as hf_limit_begin() was told; valid until the limit ends */
    uint64_t limit;     /* bytes; HF_LIMIT_NONE: none */
    uint64_t used;      /* bytes that count now */
    uint64_t peak;      /* the most that ever counted */
    uint64_t refused;   /* allocations that were refused */
    uint64_t crossings; /* how often the limit was reached, and told */
    unsigned mode;      /* enum hf_limit_mode */
    unsigned objects;   /* that were found, by now */
    unsigned python;    /* in a callback: not 0 if the calling thread is attached to CPython */
};

/*
 * Called when the limit is reached: once, and again only after a sixteenth of it was free
 * meanwhile. `asked` is the size that is too much.
 *
 * It runs on the thread that allocates, in the call that allocates, which may be anywhere in the
 * library: so it must not wait for what other threads of the library do, nor enter the library
 * where that keeps locks while it allocates. No lock of homefree's heap is held; one thread calls
 * it at a time, and others that reach the limit meanwhile wait for it, for a second at most
 * (HF_LIMIT_TRIM, threads that are not attached to CPython), or are refused. What it allocates
 * beyond the limit itself is refused without another call. With HF_LIMIT_REFUSE it is called before
 * the refusal, with HF_LIMIT_WARN after the block is there.
 */
typedef void hf_limit_callback(void *context, const struct hf_limit_state *state, uint64_t asked);

/* Fields may be added at the end. */
struct hf_limit_options {
    size_t size;                 /* of this struct: set it before the call */
    unsigned mode;               /* enum hf_limit_mode */
    hf_limit_callback *callback; /* or NULL */
    void *context;               /* for the callback */
    const char *name;            /* for hf_limit_each(), copied; NULL: the last part of the path */
};

/*
 * Begins a limit.
 *
 * Parameters:
 *   out      out: the limit, to be ended by hf_limit_end(); unchanged on error
 *   path     in: of a loaded shared object, as the dynamic linker knows it, or the original's if it
 *            is an adopted copy; a last part alone, such as libparser.so.2; or, with a slash at its
 *            end, a directory: then all objects below it, those that are loaded later, too. NULL:
 *            no object yet (hf_limit_add())
 *   bytes    in: the limit; 0 refuses everything, HF_LIMIT_NONE nothing
 *   options  in: or NULL, for HF_LIMIT_REFUSE without a callback
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   an argument
 *   -ENOENT   no such object is loaded
 *   -EXDEV    what was found allocates elsewhere: it is neither adopted nor linked with the shim
 *   -EEXIST   an object has a limit already
 *   -EACCES   an object's slots cannot be written
 *   -EMFILE   there are 64 limits, or their objects call more functions than there is room for
 *   -ENOMEM   there is no memory
 *   -EAGAIN   another thread's fork takes long
 *   -EPERM    the system does not let homefree's tables be written
 *   -ENOSYS   the dynamic linker did not let its lock be taken
 *   -ENOTSUP  diagnostics mode; a copy that forwards to a heap without limits; or the part of
 *             homefree that has them, libhomefree-limits.so, cannot be opened: a line on stderr
 *             says why
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe; a child has the same limits, which count what it has.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_begin(struct hf_limit **out, const char *path, uint64_t bytes,
                          const struct hf_limit_options *options);

/*
 * Adds objects to a limit.
 *
 * Parameters:
 *   limit  in
 *   path   in: as hf_limit_begin(); below a directory there need not be any yet
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  an argument, or the limit has ended
 *   others   as hf_limit_begin()
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_add(struct hf_limit *limit, const char *path);

/*
 * Changes how much there may be. If more is used by now, whatever is allocated is refused until
 * enough was freed.
 *
 * Parameters:
 *   limit  in
 *   bytes  in: as hf_limit_begin()
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  the limit has ended
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_set(struct hf_limit *limit, uint64_t bytes);

/*
 * Tells what is known of a limit.
 *
 * Parameters:
 *   limit  in
 *   out    in/out: as far as out->size says
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  an argument, or the limit has ended
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_read(const struct hf_limit *limit, struct hf_limit_state *out);

/* What hf_limit_each() calls for each limit. A result other than 0 ends it. */
typedef int hf_limit_visitor(void *context, const struct hf_limit_state *state);

/*
 * Visits the limits of the process.
 *
 * Parameters:
 *   visit    in: called for each, in the calling thread; it must not end a limit
 *   context  in: for visit
 * Result: 0 when every limit was visited; what the visitor returned if it ended the visit; or a
 *   negative errno.
 * Errors:
 *   -EINVAL  visit is NULL
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_each(hf_limit_visitor *visit, void *context);

/*
 * Ends a limit: its blocks are ordinary ones from then on. Waits for a callback of it that another
 * thread is in. Not to be called while a library is loaded that may allocate through it, in that
 * library's constructors.
 *
 * Parameters:
 *   limit  in: or NULL, which does nothing
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  the limit has ended
 *   -EAGAIN  another thread's fork takes long: the limit no longer refuses anything, and is to be
 *            ended again
 * Frees: the limit.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_limit_end(struct hf_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
