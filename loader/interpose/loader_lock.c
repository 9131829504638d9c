/*
 * Owns the request that a thread has under way (a thread-local pointer of 8 bytes, initial-exec
 * like the heap's own slot). See lock.h.
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

/* Runs also when somebody else looks the symbol up; without a request there is nothing to do. */
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
    /* A handle by name, because a link_map is one only after dlopen() has seen the object; never
     * closed, and never unloaded anyway (-z nodelete). */
    static _Atomic(void *) handle;
    if (handle == NULL) {
        const struct link_map *self = hf_dynlink_find(&hf_region);
        handle = self != NULL ? dlopen(self->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    }
    if (handle == NULL)
        return -ENOSYS;
    /* dlopen() is no cancellation point; open(), pread() and close() are, and a thread that ended
     * here would keep the loader's lock. */
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    current = &request;
    (void)dlvsym(handle, "hf_loader_lock_call", "HOMEFREE_1.0");
    current = outer;
    pthread_setcancelstate(cancel_state, NULL);
    return request.done ? 0 : -ENOSYS;
}
