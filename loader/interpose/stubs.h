/*
 * The functions that routed slots point to.
 *
 * Each routed function has a few stubs, one for each allocator that slots went to before: "the
 * original". A stub asks whether the heap owns the pointer, and otherwise jumps to its original;
 * which object called does not matter any more then, and no lookup happens in a call.
 */
#ifndef HOMEFREE_STUBS_H
#define HOMEFREE_STUBS_H

#include "alloc/owner/foreign.h"
#include "loader/interpose/routed.h"

#include <stdbool.h>
#include <stddef.h>

/* The stub that goes to this original; NULL when HF_STUBS_PER_FUNCTION others are taken. Stubs are
 * never given back. Any thread, also in a signal handler. */
void *hf_stub_for(enum hf_routed function, void *original);
/* Objects were unloaded: takes back the stubs whose original is gone, for another to have. Under
 * the loader's lock. */
void hf_stubs_forget(void);
/* The same as hf_stub_for() for many at once. */
struct hf_stub_wish {
    enum hf_routed function;
    void *original;
    void *stub;                /* out */
    struct hf_definer definer; /* out, of a stub that is new */
};
void hf_stubs_for(struct hf_stub_wish *wishes, size_t count);
/* Whether an address is one of the function's stubs. */
bool hf_stub_is(enum hf_routed function, const void *address);
/* Where a stub goes with what the heap does not own; NULL for an address that is none. */
void *hf_stub_original(enum hf_routed function, const void *address);

/* Makes the stubs ask foreign allocators (foreign.h) before they pass a foreign pointer to its
 * original. Until then that question costs nothing. Any thread; takes no lock. */
void hf_stubs_ask_foreign(void);

typedef void *hf_dlopen_function(const char *file, int mode);

/* What the stubs of the loader's functions do beside calling their originals; dlopen_hooks.h has
 * them. `caller` is the code that called the stub. */
struct hf_stub_hooks {
    /* Stands in for dlopen(file, mode), and routes what it brought. Result and errors are dlopen's
     * (dlerror() included). */
    void *(*open)(hf_dlopen_function *original, const char *file, int mode, const void *caller);
    /* Routes what a call of the loader that returned `handle` has brought. Result: handle. */
    void *(*loaded)(void *handle);
    /* Whether dlsym(handle, name) asks for a routed function, and its answer may be replaced.
     * RTLD_NEXT means "the next one after me", and is left alone. */
    bool (*wants)(void *handle, const char *name);
    /* The handle by which the caller's own scope is searched where RTLD_DEFAULT found nothing from
     * here; NULL where it has none: an object that was never opened by itself. */
    void *(*scope)(void *handle, const void *caller);
    /* Where RTLD_DEEPBIND gave the caller a scope of its own: the stub in the caller's own slot of
     * that function, or NULL. `local` becomes the handle to search before all others, or NULL. */
    void *(*own)(void *handle, const char *name, const void *caller, void **local);
    /* The routed function for what dlsym() found; found itself where there is none, or NULL. */
    void *(*symbol)(const char *name, void *found);
};
/* Called once, by the library's constructor, before any slot leads to a stub. `hooks` is constant.
 * Result: false where the table of stubs cannot be written. */
bool hf_stubs_offer_hooks(const struct hf_stub_hooks *hooks);

#endif
