/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/profile.h - which code has how much of the heap, by samples.
 *
 *     (void)hf_profile_begin(HF_PROFILE_MEAN);
 *     …
 *     (void)hf_profile_each(visit, context);  // what was allocated since then and still lives
 *
 * One byte in HF_PROFILE_MEAN, chosen at random, makes the block that it is in a sample, with the
 * stack of the call. The sum of the samples' weights is an estimate without bias of what all live
 * blocks have: by stack, by shared object, or in any other way. Its relative standard error is
 * about 1 / sqrt(n) for a sum over n samples: so what has 1 GiB is known to within 2 %, at the
 * usual rate.
 *
 * While nobody profiles, no call takes an instruction more. At the usual rate, programs take less
 * than a hundredth longer. What lives when the profile begins is not in it, nor are blocks of no
 * bytes, blocks of spaces (homefree/space.h), and what the heap lends to hosted allocators: objects
 * of CPython that lie in its arenas.
 *
 * HOMEFREE_CONF=profile:512K begins a profile when the process starts.
 */
#ifndef HOMEFREE_PROFILE_H
#define HOMEFREE_PROFILE_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_PROFILE_MEAN ((size_t)512 << 10)

/* A function of Python, and the line of it that runs. Text in UTF-8; "" and 0: unknown. */
struct hf_profile_python {
    const char *function, *file;
    uint32_t line;
};

/* A sample: a live block. Fields may be added at the end. */
struct hf_profile_sample {
    const void *block;    /* its first byte */
    uint64_t bytes;       /* that the program asked for */
    double weight_bytes;  /* how many bytes it stands for, and */
    double weight_blocks; /* how many blocks */
    /* The path of the shared object that asked for it: the innermost one on the stack that is
     * neither homefree's, libc's nor the C++ runtime's. "" if it is not known. */
    const char *object;
    /* Return addresses, the innermost first, of at most 32 frames; none before glibc 2.35. */
    const void *const *frames;
    size_t frames_count;
    /* The same of CPython 3.9 to 3.14 with a GIL, in a thread that has it. */
    const struct hf_profile_python *python;
    size_t python_count;
    /* The same for samples of one stack, and so of one object, until the next profile begins. */
    uint64_t stack;
};

/* What hf_profile_each() calls for each sample, which is valid during the call. A result other than
 * 0 ends it. */
typedef int hf_profile_visitor(const struct hf_profile_sample *sample, void *context);

/*
 * Begins a profile, and forgets what earlier ones sampled.
 *
 * The samples take at most 64 MiB, or less if the process may have less address space; what does
 * not fit is not sampled. The memory comes as it is needed: about 50 bytes a sample, and 500 for
 * each stack that differs.
 *
 * Parameters:
 *   mean_bytes  in: of so many bytes, one makes its block a sample; HF_PROFILE_MEAN for production.
 *               1 makes a sample of nearly every block, and of all that have 40 bytes or more
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   mean_bytes is 0
 *   -EBUSY    a profile has begun, or another thread is in hf_profile_each()
 *   -ENOMEM   there is no memory or address space
 *   -ENOTSUP  diagnostics mode; a copy that forwards to a heap that has no profiles; or the part of
 *             homefree that has them, libhomefree-profile.so, cannot be opened: a line on stderr
 *             says why
 *   -EAGAIN   another thread's fork takes long
 *   -EPERM    the system does not let homefree's tables be written
 * Frees: nothing.
 * Threads: safe; counts what all threads allocate.
 * Fork: safe; the profile goes on in the child.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_profile_begin(size_t mean_bytes);

/*
 * Ends the profile: nothing more becomes a sample. Those that live can still be visited, and go as
 * their blocks are freed.
 *
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  no profile has begun
 *   -EAGAIN  another thread's fork takes long
 *   -EPERM   the system does not let homefree's tables be written
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_profile_end(void);

/*
 * Visits the samples whose blocks live. Without a profile there are none.
 *
 * What other threads, and the visitor itself, allocate and free meanwhile may be seen or not.
 *
 * Parameters:
 *   visit    in: called for each sample, in the calling thread, without a lock of the heap; it must
 *            not begin a profile
 *   context  in: for visit
 * Result: 0 when every sample was visited; what the visitor returned if it ended the visit; or a
 *   negative errno.
 * Errors:
 *   -EINVAL   visit is NULL
 *   -EBUSY    another thread visits them or begins a profile, or the visitor calls this
 *   -ENOTSUP  a copy that forwards to a heap that has no profiles
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_profile_each(hf_profile_visitor *visit, void *context);

#ifdef __cplusplus
}
#endif
#endif
