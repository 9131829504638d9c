/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the files of this directory call CUDA: the table of its functions, contexts, and what becomes
 * of errors. Nobody else includes this.
 *
 * Owned by cuda_calls.c, with the locks that cuda.h names.
 *
 * Almost all calls are the driver's, for three reasons. Its errors are no "last error" of the
 * runtime. It makes no context unless it is told to. And a context is pushed and popped, whereas
 * the runtime cannot give a thread back the context that it had, or had not. The contexts are the
 * devices' primary ones, which are the runtime's, too.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_CALLS_H
#define HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_CALLS_H

#include "satellites/cuda/driver/cuda_types.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_CUDA_DEVICES_MAX 64

struct hf_cuda_functions {
#define HF_CUDA_RUNTIME(result, name, parameters)         result(*name) parameters;
#define HF_CUDA_DRIVER(name, symbol, parameters)          hf_cu_result(*name) parameters;
#define HF_CUDA_DRIVER_OPTIONAL(name, symbol, parameters) hf_cu_result(*name) parameters;
#include "satellites/cuda/driver/cuda_functions.def"
#undef HF_CUDA_RUNTIME
#undef HF_CUDA_DRIVER
#undef HF_CUDA_DRIVER_OPTIONAL
    int count;                                /* devices; at most HF_CUDA_DEVICES_MAX */
    hf_cu_device device[HF_CUDA_DEVICES_MAX]; /* the driver's number of each */
};

/* Guards the reason and the pool of events. No call of CUDA's is made, and no other lock is taken,
 * while it is held. */
extern pthread_mutex_t hf_cuda_lock_of_state;

/* The functions; NULL before they are published, or when nothing may be called any more. */
const struct hf_cuda_functions *hf_cuda_functions(void);

/* Seals the functions, unless another thread was first. Result: 0, -EEXIST if another was first,
 * -EIO if the tables cannot be written. */
int hf_cuda_publish(const struct hf_cuda_functions *functions);

/* Why nothing can be called now: -ENODEV, -ESHUTDOWN, or 0 if it can. */
int hf_cuda_ready(void);

/* Sets what hf_cuda_reason() says; "" for nothing. The parts are put together; NULL ends them. */
void hf_cuda_set_reason(const char *first, ...) __attribute__((sentinel));

/* The errno of an error of CUDA's, which becomes the reason. An error that says that the primary
 * contexts are gone ends all calls. Preserves errno. */
int hf_cuda_failed(const char *call, hf_cu_result error);

/* The errno of an error, and nothing else. */
int hf_cuda_errno_of(hf_cu_result error);

/* The runtime's "last error" around a call of its own: one that we made is cleared. If there was
 * one before, the runtime has forgotten that, and ours stays in its place. */
struct hf_cuda_last {
    hf_cu_error before;
};
struct hf_cuda_last hf_cuda_last_before(const struct hf_cuda_functions *functions);
void hf_cuda_last_after(const struct hf_cuda_functions *functions, struct hf_cuda_last last,
                        hf_cu_error error);

/*
 * Calls of the driver stand between hf_cuda_enter() and hf_cuda_leave(), if it succeeded. Meanwhile
 * the context is the thread's, and a capture of streams that is under way elsewhere is not
 * invalidated by calls that it would forbid.
 */
struct hf_cuda_scope {
    const struct hf_cuda_functions *call;
    hf_cu_capture_mode mode; /* the thread's own, meanwhile */
    bool mode_is_changed;
    int saved_errno;
};
/* Creates the device's primary context. -EINVAL if there is no such device. */
int hf_cuda_enter(struct hf_cuda_scope *scope, int device);
/* The same in some device's primary context that exists because of homefree; if there is none,
 * -EINVAL, and nothing is created. */
int hf_cuda_enter_any(struct hf_cuda_scope *scope);
/* The same in a context of the user's. Its errors end nothing. */
int hf_cuda_enter_context(struct hf_cuda_scope *scope, hf_cu_context context);
void hf_cuda_leave(const struct hf_cuda_scope *scope);

/* Ends a function that makes one call: leaves, and returns 0 or the errno. */
int hf_cuda_done(const struct hf_cuda_scope *scope, const char *call, hf_cu_result error);

#endif
