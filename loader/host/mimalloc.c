/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the number under which its pages outside the region are recorded; it is assigned once, in a
 * routing pass, and read without a lock. The functions of the hosted allocator may be called by any
 * thread at any time, also after the interpreter has ended.
 *
 * Blocks are freed by PyMem_Free() and PyObject_Free(), which need an attached thread: a detached
 * one would change pages that the collector is looking at. Those of RAW, where that is mimalloc's,
 * need none. CPython exports no function of its mimalloc; where a block begins is read from its
 * pages (mimalloc_segments.h).
 */
#include "loader/host/mimalloc.h"

#include "alloc/base/apart.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/hosted.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/finding.h"
#include "loader/host/cpython.h"
#include "loader/host/domains.h"
#include "loader/host/mimalloc_segments.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* What debug hooks put in front of a block: its size, a letter for the domain, and guard bytes. */
struct prefix {
    unsigned char size[8];
    char letter;
    unsigned char guards[7];
};
#define GUARD 0xfd

static unsigned number; /* of the foreign allocator; 0: none was found */

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
    if ((prefix->letter != 'r' && prefix->letter != 'm' && prefix->letter != 'o') ||
        memcmp(prefix->guards, guards, sizeof guards) != 0)
        return NULL;
    return prefix;
}

static enum hf_py_domain domain_in(const struct prefix *prefix)
{
    return prefix->letter == 'r' ? HF_PY_RAW : prefix->letter == 'm' ? HF_PY_MEM : HF_PY_OBJECT;
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
    hf_text_say(&text, "the pointer %s", fact);
    hf_text_add_caller(&text, caller);
    hf_text_say(&text, "; going on would damage the interpreter's memory; %s", remedy);
    hf_fatal(&text);
}

/*
 * Finds by which domain's functions the calling thread may release or resize a block. Without debug
 * hooks, MEM's free RAW's blocks and objects, too, and RAW's those of MEM: all of them are
 * mi_free(). Returns false once the interpreter is gone, when nothing allocates there any more.
 * Ends the process if the pointer is known to be no block, or the thread may not.
 */
static bool find_domain(const char *call, const void *ptr, const void *caller,
                        enum hf_py_domain *out)
{
    const struct hf_cpython *cpython = hf_cpython();
    const bool attached = hf_cpython_attached(cpython);
    if (!attached && !cpython->is_initialized())
        return false;
    const bool debug = debug_hooks(), known = hf_mimalloc_segments_prove(cpython);
    const struct hf_mimalloc_block block = hf_mimalloc_segments_block(ptr);
    const bool misplaced =
        known &&
        (block.size == 0 || block.first + (debug ? sizeof(struct prefix) : 0) != (uintptr_t)ptr);
    const struct prefix *prefix = debug && !misplaced ? prefix_of(ptr) : NULL;
    if (misplaced || (debug && prefix == NULL))
        die(call, ptr, caller,
            "is in memory of CPython's mimalloc, but at the first byte of no block that is in use",
            "release the pointer that the allocation returned, once");
    if (debug)
        *out = domain_in(prefix);
    else
        *out =
            known && !block.of_objects && hf_mimalloc_serves_raw(cpython) ? HF_PY_RAW : HF_PY_MEM;
    if (!attached && *out != HF_PY_RAW)
        die(call, ptr, caller,
            "is a block of CPython's mimalloc, and the calling thread is not attached to an "
            "interpreter",
            "release it with PyMem_Free or PyObject_Free while the thread is attached "
            "(PyGILState_Ensure), or allocate what other threads free with PyMem_RawMalloc, and "
            "release that with PyMem_RawFree");
    return true;
}

/* ---- the hosted allocator ---- */

static void hosted_free(void *ptr, const void *caller)
{
    const struct hf_cpython *cpython = hf_cpython();
    const int saved_errno = errno;
    enum hf_py_domain domain;
    if (find_domain("free", ptr, caller, &domain)) {
        if (domain == HF_PY_RAW)
            cpython->raw_free(ptr);
        else if (domain == HF_PY_MEM)
            cpython->mem_free(ptr);
        else
            cpython->object_free(ptr);
    }
    errno = saved_errno;
}

/* The block that holds an address: as mimalloc sees it, and with what debug hooks put in front of
 * it, if any. */
static struct hf_mimalloc_block block_of(const void *ptr, const struct prefix **prefix)
{
    (void)hf_mimalloc_segments_prove(hf_cpython());
    const struct hf_mimalloc_block block = hf_mimalloc_segments_block(ptr);
    *prefix =
        block.size != 0 && debug_hooks() ? prefix_of((const struct prefix *)block.first + 1) : NULL;
    return block;
}

static size_t hosted_usable_size(const void *ptr, const void *caller)
{
    const struct prefix *prefix;
    const struct hf_mimalloc_block block = block_of(ptr, &prefix);
    (void)caller;
    if (prefix != NULL)
        return size_in(prefix);
    return block.size != 0 ? block.size - ((uintptr_t)ptr - block.first) : 0;
}

static void *hosted_realloc(void *ptr, size_t size, const void *caller)
{
    const struct hf_cpython *cpython = hf_cpython();
    enum hf_py_domain domain;
    if (size == 0) {
        hosted_free(ptr, caller);
        return NULL;
    }
    if (!find_domain("realloc", ptr, caller, &domain)) {
        const size_t usable = hosted_usable_size(ptr, caller);
        void *copy = hf_malloc(size);
        return copy == NULL ? NULL : memcpy(copy, ptr, size < usable ? size : usable);
    }
    void *resized = domain == HF_PY_RAW   ? cpython->raw_realloc(ptr, size)
                    : domain == HF_PY_MEM ? cpython->mem_realloc(ptr, size)
                                          : cpython->object_realloc(ptr, size);
    if (resized == NULL)
        errno = ENOMEM;
    return resized;
}

static void hosted_describe(const void *ptr, struct hf_owner *owner)
{
    static const char *const domains[HF_PY_DOMAINS] = {"raw", "mem", "object"};
    const struct prefix *prefix;
    const struct hf_mimalloc_block block = block_of(ptr, &prefix);
    owner->kind = HF_OWNER_ALLOCATOR;
    owner->allocator = "mimalloc";
    owner->object = hf_dynlink_name(hf_cpython()->map);
    if (block.size == 0)
        return;
    owner->block = prefix != NULL ? (const void *)(prefix + 1) : (const void *)block.first;
    owner->block_size = prefix != NULL ? size_in(prefix) : block.size;
    if (prefix != NULL)
        owner->domain = domains[domain_in(prefix)];
}

static bool hosted_trim(void);
static const struct hf_hosted hosted = {hosted_free, hosted_realloc, hosted_usable_size,
                                        hosted_describe, .trim = hosted_trim};

/* ---- trimming ---------------------------------------------------------------------------------
 *
 * The list of heaps and mimalloc's own function for collecting them, which is found once by its
 * name in CPython's symbol table, are used only while the world is stopped, by the thread that has
 * stopped it. Meanwhile nobody else calls mimalloc: every thread is detached, or waits at a place
 * where it may. That holds for one interpreter, because a stop is its own, and where the RAW
 * domain, which detached threads use, is not mimalloc's.
 *
 * mimalloc frees pages when their owner allocates; an idle thread's stay. CPython collects heaps of
 * other threads, too, when it ends them. What an object was in is given back two collections later,
 * as soon as every thread has been seen elsewhere (CPython's QSBR): stopped ones have, and this one
 * has when it attaches anew. Without symbols only the pages go that are free already.
 */

enum { COLLECTIONS = 3, HEAPS_MOST = 4096 };

static uintptr_t heaps[HEAPS_MOST] HF_APART;
static size_t heap_count;

typedef void collect_function(void *heap, bool force);

struct search {
    const struct link_map *map;
    void *found;
};

static bool look_at_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct search *search = context;
    void *code = (void *)(search->map->l_addr + symbol->value);
    if (symbol->defined && symbol->type == STT_FUNC &&
        strcmp(symbol->name, "mi_heap_collect") == 0 && hf_dynlink_find(code) == search->map)
        search->found = code;
    return search->found == NULL;
}

static collect_function *search_file(const struct link_map *map)
{
    struct hf_elf elf, debug;
    struct search search = {.map = map};
    if (hf_elf_open(&elf, map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe") != 0)
        return NULL;
    if (hf_finding_is_loaded(map, &elf) &&
        hf_elf_symbols(&elf, HF_ELF_SYMTAB, look_at_symbol, &search) == -ENOENT &&
        hf_elf_open_debug(&debug, &elf, NULL) == 0) {
        (void)hf_elf_symbols(&debug, HF_ELF_SYMTAB, look_at_symbol, &search);
        hf_elf_close(&debug);
    }
    hf_elf_close(&elf);
    return (collect_function *)search.found;
}

static collect_function *find_collect(const struct link_map *map)
{
    static _Atomic(collect_function *) collect;
    static atomic_bool looked;
    if (!looked) {
        collect = search_file(map);
        looked = true;
    }
    return collect;
}

/* Adjoining ranges are one: what is read of an arena begins with its first segment. */
struct walk {
    void (*each)(const void *start, size_t size);
    const char *start, *end;
};

static void take(const void *start, size_t size, void *context)
{
    struct walk *walk = context;
    if (start != walk->end) {
        if (walk->start != walk->end)
            walk->each(walk->start, (size_t)(walk->end - walk->start));
        walk->start = start;
    }
    walk->end = (const char *)start + size;
}

static void walk_all(void (*each)(const void *start, size_t size))
{
    struct walk walk = {each, NULL, NULL};
    hf_hosted_visit(&hosted, take, &walk);
    hf_foreign_pages_visit(number, take, &walk);
    take(NULL, 0, &walk);
}

static void add_heap(uintptr_t heap)
{
    size_t i = 0;
    while (i < heap_count && heaps[i] != heap)
        i++;
    if (i == heap_count && i < HEAPS_MOST)
        heaps[heap_count++] = heap;
}

/* All of them first: collecting changes segments. */
static void gather(const void *start, size_t size)
{
    hf_mimalloc_segments_heaps(start, size, add_heap);
}

static void collect_all(collect_function *collect)
{
    heap_count = 0;
    walk_all(gather);
    for (size_t i = 0; i < heap_count; i++)
        collect((void *)heaps[i], true);
}

struct attached {
    struct hf_py_thread *thread;
    bool was, is_new;
};

static bool attach(const struct hf_cpython_interpreters *py, struct attached *out)
{
    *out = (struct attached){.was = hf_cpython_attached(py->cpython)};
    if (out->was)
        return true;
    out->thread = py->cpython->this_thread();
    if (out->thread == NULL) {
        out->thread = py->thread_new(py->main_interpreter());
        out->is_new = true;
    }
    if (out->thread != NULL)
        py->cpython->attach(out->thread);
    return out->thread != NULL;
}

static void leave(const struct hf_cpython_interpreters *py, const struct attached *attached)
{
    if (attached->is_new) {
        py->thread_clear(attached->thread);
        py->thread_delete_current();
    } else if (!attached->was) {
        (void)py->cpython->detach();
    }
}

/* Whether the process is the child of a fork() that CPython was not told of: a stop would wait for
 * threads that are gone. The calling thread is attached; if it is the only one, the list of states
 * stays as it is. */
static bool has_lost_threads(const struct hf_cpython_interpreters *py)
{
    enum { NO_THREAD = 2 }; /* links of the directory itself */
    struct stat threads;
    if (stat("/proc/self/task", &threads) != 0 || threads.st_nlink != NO_THREAD + 1)
        return false;
    struct hf_py_thread *first = py->thread_head(py->main_interpreter());
    return first != NULL && py->thread_next(first) != NULL;
}

/* Gives back to the system what no block is in, for all threads, also for those that have ended.
 * False if that is not possible in this CPython or at this moment. Any thread, which is attached
 * meanwhile: the caller holds no lock that Python code may wait for. */
static bool hosted_trim(void)
{
    const struct hf_cpython *cpython = hf_cpython();
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct attached attached;
    if (py == NULL || cpython->stop_world == NULL || cpython->start_world == NULL ||
        !cpython->free_threaded || hf_mimalloc_serves_raw(cpython) || !cpython->is_initialized() ||
        py->is_finalizing())
        return false;
    collect_function *collect = find_collect(cpython->map);
    if (!attach(py, &attached))
        return false;
    bool able = !has_lost_threads(py) && hf_mimalloc_segments_prove(cpython);
    for (int turn = collect != NULL ? 0 : COLLECTIONS; able && turn <= COLLECTIONS; turn++) {
        /* The newest is the head. Others may end while their world is being stopped. */
        struct hf_py_interpreter *interpreter = py->main_interpreter();
        cpython->attach(cpython->detach());
        able = py->interpreter_head() == interpreter;
        if (!able)
            break;
        cpython->stop_world(interpreter);
        able = py->interpreter_head() == interpreter && py->interpreter_next(interpreter) == NULL;
        if (able && turn < COLLECTIONS)
            collect_all(collect);
        else if (able)
            walk_all(hf_mimalloc_segments_trim);
        cpython->start_world(interpreter);
    }
    leave(py, &attached);
    return able;
}

/* ---- its mappings ---- */

/*
 * Reads calls as mimalloc 2.1 makes them. It reserves arenas and large blocks, at an address of its
 * own choice, a multiple of a segment's size, which nobody else in CPython passes; or at none,
 * where the size is above 1 GiB or the wish was in vain. Smaller mappings hold its books.
 */
static bool is_its(const struct hf_mapping_call *call, bool in_vain, bool *by_region)
{
    const size_t least = HF_MIMALLOC_SEGMENT / 2, hinted_most = (size_t)1 << 30;
    const int plain = MAP_PRIVATE | MAP_ANONYMOUS;
    const uintptr_t hint = (uintptr_t)call->address;
    const bool vast = call->size > hinted_most && (call->flags & MAP_NORESERVE) != 0;
    if ((call->protection != PROT_NONE && call->protection != (PROT_READ | PROT_WRITE)) ||
        (call->flags & ~MAP_NORESERVE) != plain || call->file != -1 || call->offset != 0 ||
        call->size < least || hint % HF_MIMALLOC_SEGMENT != 0)
        return false;
    *by_region = hint != 0 || vast;
    return *by_region || in_vain;
}

/* Whether the program is to run on mimalloc although its CPython has a GIL. */
static bool is_asked_for(void)
{
    const char *asked = secure_getenv("PYTHONMALLOC");
    return asked != NULL && strncmp(asked, "mimalloc", strlen("mimalloc")) == 0;
}

bool hf_mimalloc_is_used(const struct hf_object *object)
{
    /* A function that free-threaded builds alone export. */
    return hf_object_symbol(object, "_Py_MergeZeroLocalRefcount") != NULL || is_asked_for();
}

bool hf_mimalloc_find(const struct hf_cpython *cpython, struct hf_mapping_host *out)
{
    const unsigned reserved = hf_foreign_reserve();
    if (reserved == 0)
        return false;
    hf_foreign_publish(reserved, &(struct hf_foreign_allocator){
                                     .name = "mimalloc",
                                     .object = hf_dynlink_name(cpython->map),
                                     .form = HF_FREE_HOSTED,
                                     .hosted = &hosted,
                                     .trim_name = "madvise",
                                 });
    hf_domains_see_mimalloc(&hosted);
    number = reserved;
    *out = (struct hf_mapping_host){&hosted, reserved, HF_MIMALLOC_SEGMENT, is_its};
    return true;
}

static void record(const void *start, size_t size)
{
    (void)hf_foreign_pages_set(start, size, number);
    hf_asking_begin();
}

void hf_mimalloc_install(const struct hf_cpython *cpython)
{
    /* Also while it looks: CPython's functions, which it calls, may lead here. */
    static atomic_bool looked;
    if (atomic_load_explicit(&looked, memory_order_relaxed) || number == 0 ||
        !hf_cpython_attached(cpython) || atomic_exchange(&looked, true))
        return;
    if (hf_mimalloc_segments_prove(cpython))
        hf_mimalloc_segments_find(record);
    else
        looked = false;
}
