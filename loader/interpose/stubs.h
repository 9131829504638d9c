/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs: the functions that routed slots point to.
 *
 * Each routed function has a few stubs, one for each allocator that slots pointed to before: "the
 * original". A stub checks whether the heap owns the pointer and otherwise jumps to its original.
 * It need not know which object called, so a call involves no lookup.
 *
 * Stubs run on any thread, at any stage, without a lock. The table of originals is sealed; the
 * functions below say who may change it.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_STUBS_H
#define HOMEFREE_LOADER_INTERPOSE_STUBS_H

#include "alloc/base/live_tables.h"
#include "alloc/owner/foreign.h"
#include "loader/interpose/routed.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns the stub for an original, or NULL when HF_STUBS_PER_FUNCTION others are in use. A stub
 * stays assigned as long as its original is loaded. Any thread, also in a signal handler. */
void *hf_stub_for(enum hf_routed function, void *original);
/* Frees the stubs whose originals have been unloaded, for reuse. Called under the loader's lock. */
void hf_stubs_forget(void);
/* Like hf_stub_for(), for several originals at once. */
struct hf_stub_request {
    enum hf_routed function;
    void *original;
    void *stub;                /* result; NULL: none left */
    struct hf_definer definer; /* used by hf_stubs_for() */
};
void hf_stubs_for(struct hf_stub_request *requests, size_t count);
/* Returns whether an address is one of the function's stubs. */
bool hf_stub_is(enum hf_routed function, const void *address);
/* Returns the original of a stub, or NULL if the address is no stub of the function. */
void *hf_stub_original(enum hf_routed function, const void *address);

/* Makes the stubs look for a foreign pointer's owner (foreign.h) before they call the original.
 * Until it is called, stubs skip the lookup. Any thread; takes no lock. */
void hf_stubs_ask_foreign(void);

/* For readers outside the process. */
extern const struct hf_live_stubs hf_stubs_live;

typedef void *hf_dlopen_function(const char *file, int mode);

/* The hooks that stubs of the loader's functions call in addition to their originals;
 * dlopen_hooks.h defines them. `caller` is the code that called the stub. */
struct hf_stub_hooks {
    /* Stands in for dlopen(file, mode) and routes the loaded objects. Result and errors are those
     * of dlopen(), including dlerror(). */
    void *(*open)(hf_dlopen_function *original, const char *file, int mode, const void *caller);
    /* Routes the objects loaded by a call that returned `handle`. Result: handle. */
    void *(*loaded)(void *handle);
    /* Returns whether dlsym(handle, name) asks for a routed function whose address may be replaced.
     * RTLD_NEXT means the next definition after the caller's and is left alone. */
    bool (*wants)(void *handle, const char *name);
    /* Returns the handle that searches the caller's own scope, used when RTLD_DEFAULT finds nothing
     * from libhomefree; NULL for an object that was never opened by itself. */
    void *(*scope)(void *handle, const void *caller);
    /* For a caller with a scope of its own (RTLD_DEEPBIND): returns the stub in the caller's own
     * slot of that function, or NULL. `local` receives the handle to search first, or NULL. */
    void *(*own)(void *handle, const char *name, const void *caller, void **local);
    /* Returns the stub for a symbol that dlsym() found; `found` itself if it is not routed, or
     * NULL. */
    void *(*symbol)(const char *name, void *found);
};
/* Called once, by the library's constructor, before any slot points to a stub. `hooks` is
 * constant. */
void hf_stubs_offer_hooks(const struct hf_stub_hooks *hooks);

#endif
