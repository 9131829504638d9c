/*
 * Following the loader: objects that come later are routed too, and dlsym() answers with routed
 * functions.
 */
#ifndef HOMEFREE_DLOPEN_HOOKS_H
#define HOMEFREE_DLOPEN_HOOKS_H

#include <stdbool.h>

typedef void *hf_dlopen_function(const char *file, int mode);

/* Stands in for dlopen(file, mode) called from `caller`; routes what it brought. `original` is the
 * dlopen that the caller's slot went to. Result and errors as dlopen's (dlerror() included). */
void *hf_hook_dlopen(hf_dlopen_function *original, const char *file, int mode, const void *caller);

/* Routes what a call of the loader that returned `handle` has brought. Result: handle. */
void *hf_hook_loaded(void *handle);

/* Whether dlsym(handle, name) asks for a routed function, and its answer may be replaced:
 * RTLD_NEXT means "whoever comes after me", and is left alone. */
bool hf_hook_wants(void *handle, const char *name);

/* RTLD_DEFAULT found nothing as seen from here: the handle by which the caller's own scope is
 * searched, or NULL. An object that was never opened by itself has an empty one. */
void *hf_hook_scope(void *handle, const void *caller);

/* The same where RTLD_DEEPBIND gave the caller a scope of its own, so that RTLD_DEFAULT finds
 * something else for it than for us: the stub in the caller's own slot of that function. NULL where
 * it has none; `local` is the handle to search before all others then, or NULL. */
void *hf_hook_own(void *handle, const char *name, const void *caller, void **local);

/* The routed function for what dlsym() found; found itself where there is none, or NULL. */
void *hf_hook_symbol(const char *name, void *found);

#endif
