/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing but the address of one function; foreign.c has the rest. The functions of the hosted
 * allocator may be called by any thread at any time, also after the interpreter has ended.
 *
 * CPython exports no function of its mimalloc. Two of mimalloc's public ones, which keep no state,
 * are found by their names in the symbol table: whether an address is in its pages, and how large a
 * block is. Blocks are freed by PyMem_Free() and PyObject_Free(), which need an attached thread: a
 * detached one would change pages that the collector is looking at.
 */
#include "loader/host/mimalloc.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/finding.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* What debug hooks put in front of a block: its size, a letter for the domain, and guard bytes. */
struct prefix {
    unsigned char size[8];
    char letter;
    unsigned char guards[7];
};
#define GUARD 0xfd

struct functions {
    const struct link_map *map;
    struct hf_elf *file;
    bool (*is_in)(const void *ptr);
    size_t (*usable_size)(const void *ptr);
};

static size_t (*_Atomic usable_size)(const void *ptr);

static bool debug_hooks(void)
{
    struct hf_py_allocator bottom;
    bool debug;
    (void)hf_cpython_bottom(hf_cpython(), HF_PY_OBJECT, &bottom, &debug);
    return debug;
}

/* The debug hooks' prefix of a block, or NULL. What lies in front of a block is mapped: mimalloc
 * keeps its own data at the start of its pages. */
static const struct prefix *prefix_of(const void *ptr)
{
    static const unsigned char guards[] = {GUARD, GUARD, GUARD, GUARD, GUARD, GUARD, GUARD};
    const struct prefix *prefix = (const struct prefix *)ptr - 1;
    if ((prefix->letter != 'm' && prefix->letter != 'o') ||
        memcmp(prefix->guards, guards, sizeof guards) != 0)
        return NULL;
    return prefix;
}

static size_t size_in(const struct prefix *prefix)
{
    size_t size = 0;
    for (size_t i = 0; i < sizeof prefix->size; i++)
        size = size << 8 | prefix->size[i];
    return size;
}

static _Noreturn void die(const char *call, const void *ptr, const void *caller, const char *fact,
                          const char *remedy)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, call, ptr);
    hf_text_add(&text, "the pointer ");
    hf_text_add(&text, fact);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would damage the interpreter's memory; ");
    hf_text_add(&text, remedy);
    hf_fatal(&text);
}

/* Whether CPython may be called now. Returns false once the interpreter is gone, when nothing
 * allocates there any more; otherwise the process ends. */
static bool may_call(const char *call, const void *ptr, const void *caller)
{
    const struct hf_cpython *cpython = hf_cpython();
    if (hf_cpython_attached(cpython))
        return true;
    if (!cpython->is_initialized())
        return false;
    die(call, ptr, caller,
        "is a block of CPython's mimalloc, and the calling thread is not attached to an "
        "interpreter",
        "release it with PyMem_Free or PyObject_Free while the thread is attached "
        "(PyGILState_Ensure), or allocate what other threads free with PyMem_RawMalloc");
}

/* Whether the block is of the OBJ domain, as far as debug hooks tell; else it is MEM's, whose
 * function frees both without them. */
static bool is_object(const char *call, const void *ptr, const void *caller)
{
    if (!debug_hooks())
        return false;
    const struct prefix *prefix = prefix_of(ptr);
    if (prefix == NULL)
        die(call, ptr, caller,
            "is in memory of CPython's mimalloc, but at the first byte of no block that is in use",
            "release the pointer that the allocation returned, once");
    return prefix->letter == 'o';
}

/* ---- the hosted allocator ---- */

static void hosted_free(void *ptr, const void *caller)
{
    int saved_errno = errno;
    if (may_call("free", ptr, caller)) {
        if (is_object("free", ptr, caller))
            hf_cpython()->object_free(ptr);
        else
            hf_cpython()->mem_free(ptr);
    }
    errno = saved_errno;
}

static size_t hosted_usable_size(const void *ptr, const void *caller)
{
    (void)caller;
    const struct prefix *prefix = debug_hooks() ? prefix_of(ptr) : NULL;
    if (prefix != NULL)
        return size_in(prefix);
    return usable_size != NULL ? usable_size(ptr) : 0;
}

static void *hosted_realloc(void *ptr, size_t size, const void *caller)
{
    if (size == 0) {
        hosted_free(ptr, caller);
        return NULL;
    }
    if (!may_call("realloc", ptr, caller)) {
        const size_t usable = hosted_usable_size(ptr, caller);
        void *copy = hf_malloc(size);
        return copy == NULL ? NULL : memcpy(copy, ptr, size < usable ? size : usable);
    }
    void *resized = is_object("realloc", ptr, caller) ? hf_cpython()->object_realloc(ptr, size)
                                                      : hf_cpython()->mem_realloc(ptr, size);
    if (resized == NULL)
        errno = ENOMEM;
    return resized;
}

static void hosted_describe(const void *ptr, struct hf_owner *owner)
{
    const struct prefix *prefix = debug_hooks() ? prefix_of(ptr) : NULL;
    owner->kind = HF_OWNER_ALLOCATOR;
    owner->allocator = "mimalloc";
    owner->object = hf_dynlink_name(hf_cpython()->map);
    if (prefix == NULL)
        return;
    owner->block = ptr;
    owner->block_size = size_in(prefix);
    owner->domain = prefix->letter == 'm' ? "mem" : "object";
}

static const struct hf_hosted hosted = {hosted_free, hosted_realloc, hosted_usable_size,
                                        hosted_describe, false};

/* ---- finding it ---- */

static bool look_at_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct functions *functions = context;
    void *code = (void *)(functions->map->l_addr + symbol->value);
    if (!symbol->defined || symbol->type != STT_FUNC || hf_dynlink_find(code) != functions->map)
        return true;
    if (strcmp(symbol->name, "mi_is_in_heap_region") == 0)
        *(void **)&functions->is_in = code;
    else if (strcmp(symbol->name, "mi_usable_size") == 0)
        *(void **)&functions->usable_size = code;
    return functions->is_in == NULL || functions->usable_size == NULL;
}

static void find_functions(struct functions *functions)
{
    struct hf_elf elf, debug;
    const char *path = functions->map->l_name;
    if (hf_elf_open(&elf, path[0] != '\0' ? path : "/proc/self/exe") != 0)
        return;
    if (hf_finding_is_loaded(functions->map, &elf) &&
        hf_elf_symbols(&elf, HF_ELF_SYMTAB, look_at_symbol, functions) == -ENOENT &&
        hf_elf_open_debug(&debug, &elf, NULL) == 0) {
        (void)hf_elf_symbols(&debug, HF_ELF_SYMTAB, look_at_symbol, functions);
        hf_elf_close(&debug);
    }
    hf_elf_close(&elf);
}

/* Whether the functions answer rightly, for small and large blocks of both domains and for what is
 * not mimalloc's. */
static bool is_proven(const struct hf_cpython *cpython, const struct functions *functions)
{
    static const size_t sizes[] = {1, 500, 5000, 500000};
    int local;
    void *raw = hf_malloc(100);
    bool right = raw != NULL && !functions->is_in(raw) && !functions->is_in(&local) &&
                 !functions->is_in(&hosted) && !functions->is_in(cpython->map);
    hf_free(raw);
    for (size_t i = 0; right && i < 2 * (sizeof sizes / sizeof sizes[0]); i++) {
        struct hf_py_allocator bottom;
        (void)hf_cpython_bottom(cpython, i % 2 == 0 ? HF_PY_MEM : HF_PY_OBJECT, &bottom, NULL);
        void *block = bottom.malloc(bottom.ctx, sizes[i / 2]);
        right = block != NULL && functions->is_in(block) &&
                (functions->usable_size == NULL || functions->usable_size(block) >= sizes[i / 2]);
        bottom.free(bottom.ctx, block);
    }
    return right;
}

void hf_mimalloc_install(const struct hf_cpython *cpython)
{
    static atomic_bool looked;
    struct functions functions = {.map = cpython->map};
    if (atomic_load_explicit(&looked, memory_order_relaxed) || !hf_cpython_attached(cpython) ||
        atomic_exchange(&looked, true))
        return;
    find_functions(&functions);
    if (functions.is_in == NULL || !is_proven(cpython, &functions))
        return;
    const unsigned number = hf_foreign_reserve();
    if (number == 0)
        return;
    usable_size = functions.usable_size;
    hf_foreign_publish(number, &(struct hf_foreign_allocator){
                                   .name = "mimalloc",
                                   .object = hf_dynlink_name(cpython->map),
                                   .kind = HF_QUESTION_TRUE,
                                   .form = HF_FREE_HOSTED,
                                   .found = HF_FOUND_LOCAL,
                                   .question = (void *)functions.is_in,
                                   .hosted = &hosted,
                               });
    hf_asking_begin();
}
