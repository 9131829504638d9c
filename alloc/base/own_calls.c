/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libraries that are preloaded to change what a process sees define clock_gettime(), getpid(),
 * sysconf() and their kind (libfaketime, sysconfcpus, torsocks, mutrace). The heap calls these
 * under its locks and while it starts, and such a definition may allocate: its first call looks for
 * the function behind it. So the heap's calls go to libc, whoever defines the names. A sanitizer's
 * definitions stay, because it must see who locks what.
 *
 * A satellite is loaded when routing has begun, so its slots lead to the stubs of the library that
 * opens it. They get what that library's own slots have: dlsym() must find CUDA's functions there,
 * and no stubs for them.
 *
 * Owns the lock under which a satellite's slots are written, because two threads may open one at a
 * time; nothing is taken below it. A copy's own slots are written by its start, once.
 */
#include "alloc/base/own_calls.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fork_lock.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the heap calls, jemalloc included. Not in the list: what the C library resolves by the
 * processor, and what concerns no time, process or lock. */
static const char *const names[] = {
    "clock_gettime",
    "getpid",
    "madvise",
    "mmap",
    "mmap64",
    "mprotect",
    "mremap",
    "munmap",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_condattr_destroy",
    "pthread_condattr_init",
    "pthread_condattr_setclock",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_mutexattr_destroy",
    "pthread_mutexattr_init",
    "pthread_mutexattr_settype",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_yield",
    "secure_getenv",
    "syscall",
    "sysconf",
};

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Whether an object's definitions are left alone: libc's own (older ones have several libraries),
 * those of another copy of this library, and those of a sanitizer. */
static bool is_left(const struct link_map *map)
{
    static const char *const parts[] = {"libpthread.so.", "librt.so.", "ld-linux"};
    struct hf_object object;
    if (map == NULL || !hf_dynlink_open(map, &object))
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (object.soname != NULL && strncmp(object.soname, parts[i], strlen(parts[i])) == 0)
            return true;
    return hf_object_symbol(&object, "hf_instance_record") != NULL ||
           hf_object_symbol(&object, "__sanitizer_print_stack_trace") != NULL;
}

/* Returns libc's function, the version that is linked to today. */
static void *libc_function(const struct hf_object *libc, const char *name)
{
    const ElfW(Sym) *symbol = hf_object_symbol(libc, name);
    for (; symbol != NULL; symbol = hf_object_next_version(libc, symbol)) {
        const size_t index = (size_t)(symbol - libc->symbols);
        const bool hidden =
            index < libc->versions_capacity && (libc->versions[index] & 0x8000) != 0;
        if (!hidden && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
            return (void *)(libc->base + symbol->st_value);
    }
    return NULL;
}

/* The slots are read-only after relocation. mprotect(2) itself is called where libc has it. */
static void write_slot(const struct hf_object *libc, void **slot, void *function)
{
    int (*const protect)(void *, size_t, int) =
        (int (*)(void *, size_t, int))libc_function(libc, "mprotect");
    long (*const configured)(int) = (long (*)(int))libc_function(libc, "sysconf");
    if (protect == NULL || configured == NULL)
        return;
    const size_t page = (size_t)configured(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)slot & -page);
    if (protect(start, page, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    (void)protect(start, page, PROT_READ);
}

/* Calls visit for each slot of an object's that leads to another object's function. */
struct slots {
    const struct hf_object *own, *libc; /* this library, and libc */
    bool of_satellite;
    const char *name; /* looked for */
    void *found;
};
typedef void visit_slot(struct slots *slots, const char *name, void **slot);

/* Another thread, which opens the same satellite, may write it. */
static void *now_in(void *const *slot)
{
    return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

static void each_in(const struct hf_object *object, const ElfW(Rela) *table, size_t count,
                    visit_slot *visit, struct slots *slots)
{
    for (size_t i = 0; i < count; i++) {
        const size_t index = ELF64_R_SYM(table[i].r_info);
        void **slot = (void **)(object->base + table[i].r_offset);
        if (index != 0 && object->symbols[index].st_shndx == SHN_UNDEF && now_in(slot) != NULL)
            visit(slots, object->strings + object->symbols[index].st_name, slot);
    }
}

static void each_slot(const struct hf_object *object, visit_slot *visit, struct slots *slots)
{
    if (object->rela != NULL)
        each_in(object, object->rela + object->rela_relative_count,
                object->rela_size / sizeof *object->rela - object->rela_relative_count, visit,
                slots);
    if (object->jump_is_rela)
        each_in(object, object->jump_relocations,
                object->jump_relocations_size / sizeof(ElfW(Rela)), visit, slots);
}

static void look_for(struct slots *slots, const char *name, void **slot)
{
    if (strcmp(name, slots->name) == 0 && hf_dynlink_find(*slot) != slots->own->map)
        slots->found = *slot;
}

static pthread_mutex_t HF_FORK_LOCK writing = PTHREAD_MUTEX_INITIALIZER;

static void bind(struct slots *slots, const char *name, void **slot)
{
    void *const before = now_in(slot);
    const struct link_map *definer = hf_dynlink_find(before);
    void *function = NULL;
    if (definer == slots->own->map && !slots->of_satellite)
        return;
    if (definer == slots->own->map) {
        slots->name = name;
        slots->found = NULL;
        each_slot(slots->own, look_for, slots);
        function = slots->found;
    } else if (definer == slots->libc->map || !is_listed(name) || is_left(definer)) {
        return;
    }
    if (function == NULL)
        function = libc_function(slots->libc, name);
    if (function == NULL || function == before)
        return;
    if (slots->of_satellite)
        pthread_mutex_lock(&writing);
    write_slot(slots->libc, slot, function);
    if (slots->of_satellite)
        pthread_mutex_unlock(&writing);
}

/* A satellite's, or with NULL this library's. */
static void bind_object(const struct link_map *map)
{
    struct hf_object object, own, libc;
    struct slots slots = {.own = &own, .libc = &libc, .of_satellite = map != NULL};
    const struct link_map *own_map = hf_dynlink_find(names);
    const struct link_map *libc_map = hf_dynlink_find((const void *)gnu_get_libc_version);
    if (own_map != NULL && libc_map != NULL && hf_dynlink_open(own_map, &own) &&
        hf_dynlink_open(libc_map, &libc) && hf_dynlink_open(map != NULL ? map : own_map, &object))
        each_slot(&object, bind, &slots);
}

void hf_own_calls_bind(void)
{
    static atomic_bool done;
    if (!atomic_exchange(&done, true))
        bind_object(NULL);
}

void hf_own_calls_bind_satellite(const void *inside)
{
    const struct link_map *map = hf_dynlink_find(inside);
    if (map != NULL)
        bind_object(map);
}
