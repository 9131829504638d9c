/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the tables of CPython's functions. Each is written once, under `lock`, sealed, and then read
 * by any thread without a lock.
 */
#include "loader/host/cpython.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/maps.h"
#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static HF_SEALED_UNION(struct hf_cpython, found) table HF_SEALED;
static bool ready;
static HF_SEALED_UNION(struct hf_cpython_interpreters, found) interpreters HF_SEALED;
static bool interpreters_ready;
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

const struct hf_cpython *hf_cpython(void)
{
    return __atomic_load_n(&ready, __ATOMIC_ACQUIRE) ? &table.found : NULL;
}

static bool read_number(const char **text, unsigned *out)
{
    const char *at = *text;
    for (*out = 0; *at >= '0' && *at <= '9' && *out < 1000; at++)
        *out = *out * 10 + (unsigned)(*at - '0');
    bool any = at != *text;
    *text = at;
    return any;
}

/* Parses a version string of Py_GetVersion(). Returns false if it is not one. */
static bool parse_version(const char *text, unsigned *version, bool *free_threaded)
{
    unsigned major, minor;
    *free_threaded = strstr(text, "free-threading build") != NULL;
    if (!read_number(&text, &major) || *text++ != '.' || !read_number(&text, &minor))
        return false;
    *version = major << 8 | minor;
    return true;
}

/* Returns a dlsym() handle for the object that contains an address, or NULL. */
static void *handle_of(const void *anchor)
{
    Dl_info info;
    struct link_map *map;
    if (dladdr1(anchor, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    /* The program itself has an empty name and is opened as NULL. */
    return dlopen(map->l_name[0] != '\0' ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
}

#define LATER(member, name, result, parameters) *(void **)&found->member = dlsym(handle, #name);
#define REQUIRED(member, name, result, parameters) \
    LATER(member, name, result, parameters)        \
    if (found->member == NULL)                     \
        return false;

static bool look_up(struct hf_cpython *found, void *handle)
{
    HF_CPYTHON_FUNCTIONS(REQUIRED)
    HF_CPYTHON_LATER_FUNCTIONS(LATER)
    if (found->current_thread == NULL)
        found->current_thread = found->current_thread_old;
    found->map = hf_dynlink_find((const void *)found->get_version);
    return found->current_thread != NULL && found->map != NULL;
}

/* With the lock: CPython writes the text in the first call, and a second one at the same time may
 * see it empty (Python/getversion.c). It waits for no lock. */
static bool read_version(struct hf_cpython *found)
{
    return parse_version(found->get_version(), &found->version, &found->free_threaded) &&
           found->version >= 0x309;
}

/* Looking up takes the dynamic linker's lock, whose holder may want this one. */
const struct hf_cpython *hf_cpython_find(const void *anchor)
{
    const struct hf_cpython *cpython = hf_cpython();
    if (cpython != NULL)
        return cpython;
    /* The handle is never closed, so the functions stay mapped. */
    void *handle = anchor != NULL ? handle_of(anchor) : NULL;
    struct hf_cpython found = {0};
    if (!look_up(&found, handle != NULL ? handle : RTLD_DEFAULT))
        return NULL;
    struct hf_seal seal;
    pthread_mutex_lock(&lock);
    if (!ready && read_version(&found) && hf_seal_open(&seal)) {
        table.found = found;
        hf_seal_close(&seal);
        __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return hf_cpython();
}

void hf_cpython_forget(void)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&interpreters_ready, false, __ATOMIC_RELEASE);
    __atomic_store_n(&ready, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static bool look_up_interpreters(struct hf_cpython_interpreters *found,
                                 const struct hf_cpython *cpython)
{
    void *handle = handle_of((const void *)cpython->get_version);
    handle = handle != NULL ? handle : RTLD_DEFAULT;
    found->cpython = cpython;
    HF_CPYTHON_INTERPRETER_FUNCTIONS(REQUIRED)
    HF_CPYTHON_INTERPRETER_LATER_FUNCTIONS(LATER)
    if (found->is_finalizing == NULL)
        found->is_finalizing = found->is_finalizing_old;
#define OBJECT(member, name)              \
    found->member = dlsym(handle, #name); \
    if (found->member == NULL)            \
        return false;
    HF_CPYTHON_OBJECTS(OBJECT)
    found->buffer_error = dlsym(handle, "PyExc_BufferError");
    return found->is_finalizing != NULL && found->buffer_error != NULL;
}

const struct hf_cpython_interpreters *hf_cpython_interpreters(void)
{
    const struct hf_cpython *cpython = hf_cpython();
    if (__atomic_load_n(&interpreters_ready, __ATOMIC_ACQUIRE))
        return &interpreters.found;
    if (cpython == NULL)
        return NULL;
    struct hf_cpython_interpreters found = {0};
    if (!look_up_interpreters(&found, cpython))
        return NULL;
    struct hf_seal seal;
    pthread_mutex_lock(&lock);
    if (!interpreters_ready && hf_seal_open(&seal)) {
        interpreters.found = found;
        hf_seal_close(&seal);
        __atomic_store_n(&interpreters_ready, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return interpreters_ready ? &interpreters.found : NULL;
}

/* Offset of thread_id in PyThreadState before 3.12, where the current thread state is a single
 * variable of the process. */
static size_t thread_id_offset(unsigned version)
{
    return version == 0x30b ? 152 : 176;
}

bool hf_cpython_attached(const struct hf_cpython *cpython)
{
    struct hf_py_thread *current = cpython->current_thread();
    if (current == NULL)
        return false;
    if (cpython->version >= 0x30c || cpython->this_thread() == current)
        return true;
    /* In a subinterpreter, this_thread() returns the thread's first state, not the current one. The
     * current state may belong to another thread, and may be about to be freed. */
    unsigned long id;
    return hf_maps_read((const char *)current + thread_id_offset(cpython->version), &id,
                        sizeof id) &&
           id == (unsigned long)pthread_self();
}

static bool is_cpythons(const struct hf_cpython *cpython, const struct hf_py_allocator *allocator)
{
    const void *functions[] = {(const void *)allocator->malloc, (const void *)allocator->calloc,
                               (const void *)allocator->realloc, (const void *)allocator->free};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (functions[i] == NULL || hf_dynlink_find(functions[i]) != cpython->map)
            return false;
    return true;
}

static bool has_functions(const struct hf_py_allocator *allocator)
{
    return hf_dynlink_find((const void *)allocator->malloc) != NULL &&
           hf_dynlink_find((const void *)allocator->calloc) != NULL &&
           hf_dynlink_find((const void *)allocator->realloc) != NULL &&
           hf_dynlink_find((const void *)allocator->free) != NULL;
}

/* The allocator below one of CPython's wrappers, or NULL. The context of tracemalloc is that
 * structure itself; the context of the debug hooks begins with a letter for the domain. */
static struct hf_py_allocator *below(const struct hf_cpython *cpython,
                                     const struct hf_py_allocator *allocator,
                                     enum hf_py_domain domain, bool *debug)
{
    struct {
        union {
            char letter;
            uint64_t word;
        } head;
        struct hf_py_allocator inner;
    } seen;
    char *at = allocator->ctx;
    if (at == NULL || (uintptr_t)at % sizeof(void *) != 0 || !is_cpythons(cpython, allocator) ||
        hf_dynlink_find(at) != cpython->map || !hf_maps_read(at, &seen, sizeof seen))
        return NULL;
    if (seen.head.word == (unsigned char)"rmo"[domain] && has_functions(&seen.inner)) {
        *debug = true;
        return (struct hf_py_allocator *)(void *)(at + sizeof seen.head);
    }
    struct hf_py_allocator *direct = (struct hf_py_allocator *)(void *)at;
    return has_functions(direct) ? direct : NULL;
}

struct hf_py_allocator *hf_cpython_bottom(const struct hf_cpython *cpython,
                                          enum hf_py_domain domain, struct hf_py_allocator *out,
                                          bool *debug)
{
    bool ignored = false;
    struct hf_py_allocator *place = NULL, *next;
    if (debug == NULL)
        debug = &ignored;
    *debug = false;
    cpython->get_allocator(domain, out);
    for (int depth = 0; depth < 8 && (next = below(cpython, out, domain, debug)) != NULL; depth++) {
        place = next;
        *out = *place;
    }
    return place;
}
