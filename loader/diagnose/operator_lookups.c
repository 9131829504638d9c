/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing: what dlsym(3) does in a diagnosed process, besides the dlopen hooks. An operator
 * that is looked up in the C++ runtime by its handle, as ctypes does it, is homefree's.
 *
 * The runtime's operators end in jumps to each other: operator new[] to operator new, operator
 * delete[] to operator delete. Called by an address from dlsym(3), the last of them would be taken
 * for the one that the caller called, and a block of new[] that goes to delete[] for a wrong pair.
 */
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/process.h"
#include "alloc/owner/deep_objects.h"
#include "loader/dlopen/dlopen_hooks.h"
#include "loader/foreign/object_role.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/routed.h"
#include "loader/interpose/stubs.h"

#include <dlfcn.h>
#include <string.h>

/* This library's operators (alloc/diagnose/process.c). */
#define HF_NEW(symbol, nothrow, aligned) extern char operator##symbol[] __asm__(#symbol);
#define HF_DELETE(symbol, ...)           extern char operator##symbol[] __asm__(#symbol);
#include "shim/functions.def"

static void *operator_of(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } operators[] = {
#define HF_NEW(symbol, nothrow, aligned) {#symbol, operator##symbol },
#define HF_DELETE(symbol, ...)           {#symbol, operator##symbol },
#include "shim/functions.def"
    };
    if (name == NULL || name[0] != '_' || name[1] != 'Z')
        return NULL;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strcmp(operators[i].name, name) == 0)
            return operators[i].function;
    return NULL;
}

/* An object, until it is found in the namespace whose operators are this library's. */
static void find_object(void *context)
{
    const struct link_map **wanted = context;
    const struct link_map *map = hf_dynlink_first();
    while (map != NULL && map != *wanted)
        map = map->l_next;
    if (map != NULL)
        *wanted = NULL;
}

/* Whether the C++ runtime defines the function, and its own calls of operators come here. */
static bool is_runtimes(const char *name, void *function)
{
    const int routed = hf_routed_by_name(name);
    if (routed >= 0 && hf_stub_is((enum hf_routed)routed, function))
        function = hf_stub_original((enum hf_routed)routed, function);
    const struct link_map *map = hf_dynlink_find(function);
    struct hf_object object;
    if (map == NULL || hf_deep_has(map) || !hf_dynlink_open(map, &object) ||
        object.soname == NULL || !hf_is_cxx_runtime(object.soname))
        return false;
    return hf_loader_lock_run(find_object, &map) == 0 && map == NULL;
}

static bool wants(void *handle, const char *name)
{
    if (hf_dlopen_hooks.wants(handle, name))
        return true;
    return handle != RTLD_DEFAULT && handle != RTLD_NEXT && operator_of(name) != NULL;
}

static void *find_symbol(const char *name, void *found)
{
    void *ours = operator_of(name);
    if (found != NULL && ours != NULL && !hf_process_has_operators() && is_runtimes(name, found))
        return ours;
    return hf_dlopen_hooks.symbol(name, found);
}

/* The library is linked with --wrap=hf_stubs_offer_hooks: its constructor offers the hooks so. */
void __real_hf_stubs_offer_hooks(
    const struct hf_stub_hooks *); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_stubs_offer_hooks(
    const struct hf_stub_hooks *); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_stubs_offer_hooks(  // NOLINT(bugprone-reserved-identifier)
    const struct hf_stub_hooks *hooks)
{
    static struct hf_stub_hooks ours;
    ours = *hooks;
    ours.wants = wants;
    ours.symbol = find_symbol;
    __real_hf_stubs_offer_hooks(&ours);
}
