/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports frees of static data and stacks. Owns the flag that the warning was given. See
 * static_data.h.
 *
 * Constraint: the process may be about to end, inside a signal handler or with locks held, so
 * nothing here waits, and the loader's lists are walked without the loader's lock. Two calls
 * allocate from libc: hf_static_resized() the block that it returns, and pthread_getattr_np() for
 * an address in the mapping of this thread's stack (owner.c).
 */
#include "alloc/owner/static_data.h"

#include "alloc/base/base_name.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/maps.h"
#include "alloc/base/options.h"
#include "alloc/base/symbol.h"
#include "alloc/owner/owner.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <stdatomic.h>
#include <string.h>

static atomic_bool warned;

/* ---- is glibc's malloc in use ---- */

/* Valgrind's malloc-replacing tools bypass the dynamic linker: free() still has glibc's address,
 * but the words before a block are the tool's. They are preloaded, and so among the first
 * objects. */
static bool is_replaced_by_valgrind(void)
{
    enum { FIRST = 16 };
    size_t seen = 0;
    for (const struct link_map *map = hf_dynlink_first(); map != NULL && seen < FIRST;
         map = map->l_next, seen++) {
        const char *name = hf_base_name(hf_dynlink_name(map));
        if (strncmp(name, "vgpreload_", 10) == 0 && strncmp(name, "vgpreload_core", 14) != 0)
            return true;
    }
    return false;
}

bool hf_static_guards(const char *name, const void *function)
{
    struct hf_object object;
    const struct link_map *map = hf_dynlink_find_fast((const void *)gnu_get_libc_version);
    return map != NULL && hf_dynlink_open(map, &object) &&
           hf_object_address(&object, name) == function && !is_replaced_by_valgrind();
}

/* ---- the message ---- */

static void add_symbol(struct hf_text *text, const struct hf_object *object, uintptr_t address)
{
    struct hf_symbol symbol;
    if (!hf_symbol_find(object, address, &symbol)) {
        hf_text_say(text, ", at +%p", (const void *)(address - object->base));
        return;
    }
    /* Even the nearest symbol before shows which part of the object it is. */
    hf_text_say(text, "%s'%s'",
                symbol.covers ? ", in " : ", which has no symbol; the nearest before is ",
                symbol.name);
    if (symbol.offset != 0)
        hf_text_say(text, "+%p", (const void *)symbol.offset);
}

/* ---- duplicate libraries ---- */

/* std::locale::classic(), which identifies the C++ runtimes of GNU and LLVM. */
static const struct {
    const char *symbol, *name;
} runtimes[] = {
    {"_ZNSt6locale7classicEv", "libstdc++"},
    {"_ZNSt3__16locale7classicEv", "libc++"},
};
#define RUNTIMES (sizeof runtimes / sizeof runtimes[0])

struct duplicates {
    const char *what; /* what is duplicated; NULL: nothing */
    const struct link_map *maps[4];
    size_t count;
};

static void note_duplicate(struct duplicates *duplicates, const struct link_map *map)
{
    if (duplicates->count < sizeof duplicates->maps / sizeof duplicates->maps[0])
        duplicates->maps[duplicates->count] = map;
    duplicates->count++;
}

static bool defines(const struct hf_object *object, const char *symbol)
{
    return hf_object_address(object, symbol) != NULL;
}

static bool is_called(const struct hf_object *object, const char *soname)
{
    return object->soname != NULL && strcmp(object->soname, soname) == 0;
}

/* Collects the objects for which `is` returns true with `name`. */
static void find_duplicates(struct duplicates *duplicates, const char *what,
                            bool (*is)(const struct hf_object *, const char *), const char *name)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    struct hf_object object;
    *duplicates = (struct duplicates){.what = what};
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            if (hf_dynlink_open(map, &object) && is(&object, name))
                note_duplicate(duplicates, map);
}

/* Names duplicates of a library that should be loaded once: the C++ runtime, or the one that holds
 * the data. */
static void add_duplicates(struct hf_text *text, const struct hf_object *object)
{
    struct duplicates duplicates = {.what = NULL};
    for (size_t i = 0; i < RUNTIMES && duplicates.count < 2; i++)
        find_duplicates(&duplicates, runtimes[i].name, defines, runtimes[i].symbol);
    if (duplicates.count < 2 && object->soname != NULL)
        find_duplicates(&duplicates, object->soname, is_called, object->soname);
    if (duplicates.count < 2)
        return;
    hf_text_say(text,
                "; %zu copies of %s are loaded, and one may have destroyed what the other keeps: ",
                duplicates.count, duplicates.what);
    for (size_t i = 0;
         i < duplicates.count && i < sizeof duplicates.maps / sizeof duplicates.maps[0]; i++)
        hf_text_say(text, "%s%s", i == 0 ? "" : ", ", hf_dynlink_name(duplicates.maps[i]));
    hf_text_add(text, "; load one copy for all");
}

static void describe(struct hf_text *text, const void *ptr, const void *caller,
                     const struct link_map *map)
{
    struct hf_object object;
    if (map == NULL) {
        hf_text_add(text, "the pointer is on a stack");
    } else {
        hf_text_say(text, "the pointer is static data of %s", hf_dynlink_name(map));
        if (hf_dynlink_open(map, &object))
            add_symbol(text, &object, (uintptr_t)ptr);
    }
    hf_text_add(text, "; libc never gave it out; called from ");
    hf_text_add_code(text, caller);
    if (map != NULL && hf_dynlink_open(map, &object))
        add_duplicates(text, &object);
}

/* Whether no allocator can have returned the pointer. *map: the object whose static data it is,
 * NULL for a stack. An object's mapping holds nothing else. */
static bool has_no_allocator(const void *ptr, const struct link_map **map)
{
    struct hf_owner owner = {.size = sizeof owner};
    *map = hf_dynlink_find_fast(ptr);
    return *map != NULL || (hf_owner_of_here(ptr, &owner) == 0 && owner.kind == HF_OWNER_STACK);
}

bool hf_static_freed(const void *ptr, const char *call, const void *caller)
{
    const struct link_map *map;
    struct hf_text text;
    int saved_errno = errno;
    if (!has_no_allocator(ptr, &map)) {
        errno = saved_errno;
        return false;
    }
    if (hf_options.static_free == HF_STATIC_FREE_FATAL) {
        hf_text_begin_fatal(&text, call, ptr);
        describe(&text, ptr, caller, map);
        hf_text_add(&text, "; HOMEFREE_CONF=static_free:ignore goes on without this call");
        hf_fatal(&text);
    }
    if (!atomic_exchange(&warned, true)) {
        hf_text_begin_warning(&text, call, ptr);
        describe(&text, ptr, caller, map);
        hf_text_add(&text, "; ignored because of HOMEFREE_CONF=static_free:ignore; later ones "
                           "are ignored without a warning");
        hf_text_write(&text);
    }
    errno = saved_errno;
    return true;
}

bool hf_static_resized(const void *ptr, size_t size, const void *caller, void **moved)
{
    if (!hf_static_freed(ptr, "realloc", caller))
        return false;
    *moved = size != 0 ? hf_libc()->malloc(size) : NULL;
    if (*moved != NULL)
        hf_maps_copy(ptr, *moved, size);
    return true;
}
