/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of heaps that a trim visits, which is only used while the world is stopped, by the
 * thread that has stopped it, and mimalloc's own function for collecting them, which is found once
 * by its name in CPython's symbol table. See mimalloc_trim.h.
 *
 * While the world is stopped, nobody else calls mimalloc: every thread is detached, or waits at a
 * place where it may. That holds for one interpreter, because a stop is its own, and where the RAW
 * domain, which detached threads use, is not mimalloc's.
 *
 * mimalloc frees pages when their owner allocates; an idle thread's stay. CPython collects heaps of
 * other threads, too, when it ends them. What an object was in is given back two collections later,
 * as soon as every thread has been seen elsewhere (CPython's QSBR): stopped ones have, and this one
 * has when it attaches anew. Without symbols only the pages go that are free already.
 */
#include "loader/host/mimalloc_trim.h"

#include "alloc/base/apart.h"
#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign_pages.h"
#include "loader/foreign/finding.h"
#include "loader/host/cpython.h"
#include "loader/host/mimalloc_segments.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

enum { COLLECTIONS = 3, HEAPS_MOST = 4096 };

static uintptr_t heaps[HEAPS_MOST] HF_APART;
static size_t heap_count;

/* ---- mimalloc's function ---- */

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

/* ---- with the world stopped ---- */

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

static void walk_all(const struct hf_hosted *hosted, unsigned number,
                     void (*each)(const void *start, size_t size))
{
    struct walk walk = {each, NULL, NULL};
    hf_hosted_visit(hosted, take, &walk);
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

static void collect_all(const struct hf_hosted *hosted, unsigned number, collect_function *collect)
{
    heap_count = 0;
    walk_all(hosted, number, gather);
    for (size_t i = 0; i < heap_count; i++)
        collect((void *)heaps[i], true);
}

/* ---- attaching ---- */

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

bool hf_mimalloc_trim(const struct hf_hosted *hosted, unsigned number)
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
            collect_all(hosted, number, collect);
        else if (able)
            walk_all(hosted, number, hf_mimalloc_segments_trim);
        cpython->start_world(interpreter);
    }
    leave(py, &attached);
    return able;
}
