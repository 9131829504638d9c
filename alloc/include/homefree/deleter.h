/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/deleter.h - refcounted deleters: a pointer, the function that frees it, and references.
 *
 * A deleter (struct hf_release) frees its pointer exactly once, on the thread that drops the last
 * reference, without calling Python. The capsules, buffers and DLPack tensors of homefree/python.h
 * are built on deleters. A C thread holds a reference to keep their memory beyond the interpreter's
 * lifetime.
 *
 * The shared object that contains the freeing function is never unloaded afterwards. Code outside
 * any shared object, such as code generated at run time, must be kept by whoever made it.
 *
 * A pointer that cannot be freed safely is leaked and counted (hf_stats(), releases_leaked):
 *
 *   - The last reference was dropped after libhomefree's own ELF destructor, that is, after all
 *     exit handlers and after the static objects of everything that depends on libhomefree.
 *   - The shared object of the freeing function could not be kept loaded, because the loader knows
 *     it under another object's name, and has been unloaded.
 *   - The function given to hf_release_new_attempt() reported that it could not free.
 *   - hf_space_free() failed for memory of hf_release_new_space().
 *
 * A deleter that is never dropped counts as live (releases_live) until the process ends.
 *
 * Different threads may take and drop references to one deleter concurrently. Only the functions
 * that make or pin take a lock. After fork(2) the child has its own copies of all deleters.
 */
#ifndef HOMEFREE_DELETER_H
#define HOMEFREE_DELETER_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_release;

/*
 * Makes a deleter with one reference.
 *
 * The function passed to hf_release_new_attempt() decides when it is called whether it can free: a
 * negative result means that it cannot, and the pointer is leaked and counted.
 *
 * Parameters:
 *   out      out: the deleter; unchanged on error
 *   pointer  in: what to free; not NULL
 *   destroy  in: frees the pointer on any thread, without the GIL, also after Py_Finalize() and in
 *            exit handlers; must not throw
 *   attempt  in: the same, and returns a negative value if it did not free
 *   name     in: for messages and for PyCapsule; copied; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out, pointer, destroy or attempt is NULL
 *   -ENOMEM  there is no memory
 * Frees: on success the deleter owns the pointer, and the caller drops the reference with
 *   hf_release_drop(). On error the caller still owns the pointer.
 * Threads: safe; takes the dynamic loader's lock for the first function of each shared object.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_release_new(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                          const char *name);
HF_API int hf_release_new_attempt(struct hf_release **out, void *pointer,
                                  int (*attempt)(void *pointer), const char *name);

/*
 * Makes a deleter with one reference for memory of a space: it frees the pointer by
 * hf_space_free(), on the stream that it carries.
 *
 * Parameters:
 *   out      out: the deleter; unchanged on error
 *   pointer  in: the first byte of a block of hf_space_alloc(), of any kind; not NULL
 *   stream   in: the stream that uses the memory last, HF_STREAM_DONE or HF_STREAM_ANY
 *   name     in: for messages and for PyCapsule; copied; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL   out or pointer is NULL
 *   -ENOMEM   there is no memory
 *   -ENOTSUP  another libhomefree in this process is the heap, and it is too old
 * Frees: on success the deleter owns the pointer, and the caller drops the reference with
 *   hf_release_drop(). On error the caller still owns the pointer.
 * Threads: safe.
 * Fork: safe; in the child, memory of a space other than HF_SPACE_HOST is leaked and counted.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_release_new_space(struct hf_release **out, void *pointer, void *stream,
                                const char *name);

/*
 * Takes one more reference to a deleter.
 *
 * Parameters:
 *   record  in/out: a deleter to which the caller, or somebody known to the caller, has a reference
 * Result: none.
 * Errors: none.
 * Frees: the caller drops the new reference with hf_release_drop().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_release_take(struct hf_release *record);

/*
 * Drops one reference to a deleter. The last one frees the pointer, unless that has happened
 * before, and the deleter. errno is preserved.
 *
 * Parameters:
 *   record  in/out: the deleter; NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: the caller's reference, and with the last one the pointer.
 * Threads: safe; the freeing function runs on the calling thread.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_release_drop(struct hf_release *record);

/*
 * Frees a deleter's pointer now. References stay valid and must still be dropped.
 *
 * Parameters:
 *   record  in/out: the deleter
 * Result: 0 or a negative errno.
 * Errors:
 *   -EALREADY   the pointer was freed or given back, or another thread is freeing it
 *   -ECANCELED  the pointer was leaked
 * Frees: the pointer.
 * Threads: safe; the freeing function runs on the calling thread.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_release_run(struct hf_release *record);

/*
 * Gives a deleter's pointer back to the caller: the deleter will not free it.
 *
 * Parameters:
 *   record  in/out: the deleter
 * Result: 0 or a negative errno.
 * Errors:
 *   -EALREADY  the pointer was freed or given back before
 * Frees: the caller owns the pointer. References must still be dropped.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_release_forbid(struct hf_release *record);

/*
 * Returns a deleter's pointer or name.
 *
 * Parameters:
 *   record  in: the deleter
 * Result: what the deleter was made with; the name may be NULL.
 * Errors: none.
 * Frees: nothing; the deleter owns both. The name is valid as long as the deleter.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API void *hf_release_pointer(const struct hf_release *record);
HF_API const char *hf_release_name(const struct hf_release *record);

/*
 * Returns the device and the stream of a deleter of hf_release_new_space().
 *
 * Parameters:
 *   record  in: the deleter
 * Result: the device's index, -1 for memory of the host; the stream on which the pointer will be
 *   freed. For any other deleter -1 and HF_STREAM_DONE.
 * Errors: none.
 * Frees: nothing. Whoever made the stream keeps it until the pointer is freed.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API int hf_release_device(const struct hf_release *record);
HF_API void *hf_release_stream(const struct hf_release *record);

/*
 * Changes the stream on which a deleter of hf_release_new_space() will free its pointer. Orders no
 * work: what used the memory on the old stream must be known to come first (hf_space_order()), or
 * be recorded (hf_space_use()).
 *
 * Parameters:
 *   record  in/out: the deleter
 *   stream  in: as for hf_release_new_space()
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL    the deleter was made by another function
 *   -EALREADY  the pointer was freed or given back, or another thread is freeing it
 * Frees: nothing.
 * Threads: safe; of two threads at once, the later one decides.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API int hf_release_set_stream(struct hf_release *record, void *stream);

/*
 * Tells whether an address is that of a deleter that has references.
 *
 * Parameters:
 *   ptr  in: any address
 * Result: true for a deleter.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API bool hf_release_is(const void *ptr);

/*
 * Prevents the shared object that contains a function from being unloaded. For function pointers
 * that are handed to other code.
 *
 * Parameters:
 *   code  in: the address of the function
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOENT  no shared object contains the address
 *   -EBUSY   the loader cannot name the object
 * Frees: nothing.
 * Threads: safe; takes the dynamic loader's lock for the first call for each shared object.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_release_pin(const void *code);

#ifdef __cplusplus
}
#endif
#endif
