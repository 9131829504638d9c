/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See no_memory.h. Owns nothing.
 */
#include "loader/adopt/no_memory.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/heap/internal.h"
#include "loader/elf/elf_names.h"
#include "loader/foreign/object_role.h"
#include "loader/interpose/loader_lock.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <string.h>

/* ---- a runtime inside the module ------------------------------------------------------------ */

typedef void new_handler(void);

/* Its functions. They are local ones, which only the file has. */
struct inner_runtime {
    uintptr_t base;
    void (*throw_bad_alloc)(void);
    new_handler *(*get_new_handler)(void);
};

enum { THROW, HANDLER };
static const char *const inner_names[] = {
    [THROW] = "_ZSt17__throw_bad_allocv",
    [HANDLER] = "_ZSt15get_new_handlerv",
};

static bool note_inner(const struct hf_elf_symbol *symbol, size_t name, void *context)
{
    struct inner_runtime *runtime = context;
    if (!symbol->defined || symbol->type != STT_FUNC)
        return true;
    void *function = (void *)(runtime->base + symbol->value);
    if (name == THROW)
        memcpy(&runtime->throw_bad_alloc, &function, sizeof function);
    else
        memcpy(&runtime->get_new_handler, &function, sizeof function);
    return runtime->throw_bad_alloc == NULL || runtime->get_new_handler == NULL;
}

static bool find_inside(const void *caller, struct inner_runtime *runtime)
{
    const struct link_map *map = hf_dynlink_find(caller);
    struct hf_names names;
    struct hf_elf elf;
    *runtime = (struct inner_runtime){0};
    if (map == NULL || hf_names_prepare(&names, inner_names, 2) != 0)
        return false;
    runtime->base = map->l_addr;
    if (hf_elf_open(&elf, hf_dynlink_name(map)) == 0)
        (void)hf_names_visit(&names, &elf, HF_ELF_SYMTAB, note_inner, runtime);
    hf_elf_close(&elf);
    return runtime->throw_bad_alloc != NULL;
}

static void fail(const struct inner_runtime *runtime)
{
    new_handler *handler = runtime->get_new_handler != NULL ? runtime->get_new_handler() : NULL;
    if (handler == NULL)
        runtime->throw_bad_alloc();
    else
        handler();
}

static void *ask_inside(const struct inner_runtime *runtime, size_t size, size_t alignment)
{
    for (;;) {
        fail(runtime);
        void *block = alignment == 0 ? hf_malloc(size) : hf_memalign(alignment, size);
        if (block != NULL)
            return block;
    }
}

/* ---- a shared runtime ----------------------------------------------------------------------- */

struct runtime_search {
    const char *name;
    void *function;
};

static void find_in_runtime(void *context)
{
    struct runtime_search *search = context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    const size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next) {
            struct hf_object object;
            if (search->function != NULL || !hf_dynlink_open(map, &object) ||
                hf_object_role(&object) != HF_ROLE_RUNTIME)
                continue;
            const ElfW(Sym) *symbol = hf_object_symbol(&object, search->name);
            if (symbol != NULL)
                search->function = (void *)(map->l_addr + symbol->st_value);
        }
}

static bool find_shared(struct runtime_search *search)
{
    return hf_loader_lock_run(find_in_runtime, search) == 0 && search->function != NULL;
}

/* The runtime's own operator new. It may also find memory that the heap did not have; that is
 * libc's, and goes home to libc. */
static void *ask_shared(void *function, size_t size, size_t alignment)
{
    return alignment == 0 ? ((void *(*)(size_t))function)(size)
                          : ((void *(*)(size_t, size_t))function)(size, alignment);
}

static __attribute__((noreturn)) void no_runtime(void)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: operator new in an adopted module found no memory, and there is no "
                       "C++ runtime that could throw std::bad_alloc");
    hf_fatal(&text);
}

void *hf_no_memory(size_t size, size_t alignment, const void *caller)
{
    struct inner_runtime inside;
    if (find_inside(caller, &inside))
        return ask_inside(&inside, size, alignment);
    struct runtime_search search = {alignment == 0 ? "_Znwm" : "_ZnwmSt11align_val_t", NULL};
    if (find_shared(&search) ||
        (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) != NULL && find_shared(&search)))
        return ask_shared(search.function, size, alignment);
    no_runtime();
}

void hf_new_failed(const void *caller)
{
    struct inner_runtime runtime;
    if (!find_inside(caller, &runtime)) {
        struct runtime_search handler = {inner_names[HANDLER], NULL},
                              throws = {inner_names[THROW], NULL};
        if (!find_shared(&throws))
            no_runtime();
        (void)find_shared(&handler);
        memcpy(&runtime.throw_bad_alloc, &throws.function, sizeof throws.function);
        memcpy(&runtime.get_new_handler, &handler.function, sizeof handler.function);
    }
    fail(&runtime);
}
