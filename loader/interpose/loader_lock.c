/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns each thread's pending request (a thread-local pointer of 8 bytes, initial-exec like the
 * heap's own TLS slot). No lock is needed. See loader_lock.h.
 */
#include "loader/interpose/loader_lock.h"

#include "alloc/base/dynlink.h"
#include "alloc/heap/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

struct request {
    void (*function)(void *context);
    void *context;
    bool done;
};

static __thread struct request *current __attribute__((tls_model("initial-exec")));

static void nothing(void)
{
}

/* Also runs when other code looks the symbol up; then no request is pending and nothing happens. */
__attribute__((used)) static void (*resolve(void))(void)
{
    struct request *request = current;
    current = NULL;
    if (request != NULL) {
        request->function(request->context);
        request->done = true;
    }
    return nothing;
}

HF_API void hf_loader_lock_call(void) __attribute__((ifunc("resolve")));

int hf_loader_lock_run(void (*function)(void *context), void *context)
{
    struct request request = {function, context, false};
    struct request *outer = current;
    /* The handle is looked up by name, because a link_map can serve as a handle only after dlopen()
     * has seen the object. It is never closed; the object is never unloaded anyway (-z
     * nodelete). */
    static _Atomic(void *) handle;
    if (handle == NULL) {
        const struct link_map *self = hf_dynlink_find(&hf_region);
        handle = self != NULL ? dlopen(self->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    }
    if (handle == NULL)
        return -ENOSYS;
    /* dlopen() is not a cancellation point, but open(), pread() and close() are: a thread cancelled
     * here would keep the loader's lock. */
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    current = &request;
    (void)dlvsym(handle, "hf_loader_lock_call", "HOMEFREE_1.0");
    current = outer;
    pthread_setcancelstate(cancel_state, NULL);
    return request.done ? 0 : -ENOSYS;
}
