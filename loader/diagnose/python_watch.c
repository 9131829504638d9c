/*
 * Owns the moment at which a diagnosed process's CPython is found: before it starts. That is when
 * the process starts, in a python or a program that needs libpython, or when libpython is loaded.
 *
 * The constructor runs after the diagnosis has begun (alloc/diagnose/diagnosis.c).
 */
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/findings.h"
#include "loader/diagnose/python_domains.h"
#include "loader/diagnose/python_frames.h"
#include "loader/host/cpython.h"
#include "loader/interpose/route.h"

#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool found, begun;

/* A function of CPython in any loaded object, or NULL. */
static const void *find_function(void)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    struct hf_object object;
    if (hf_dynlink_namespaces(first) != 0)
        for (const struct link_map *map = first[0]; map != NULL; map = map->l_next) {
            const void *function = hf_dynlink_open(map, &object)
                                       ? hf_object_address(&object, "PyMem_SetAllocator")
                                       : NULL;
            if (function != NULL)
                return function;
        }
    return NULL;
}

/* Nobody waits: whoever finds the lock taken has loaded something else, or it is being looked at.
 */
static void look_for_cpython(void)
{
    if (hf_diagnose.mode == HF_REPORT_COUNT || pthread_mutex_trylock(&lock) != 0)
        return;
    const void *function = begun && !found ? find_function() : NULL;
    const struct hf_cpython *cpython = function != NULL ? hf_cpython_find(function) : NULL;
    if (cpython != NULL) {
        hf_python_frames_start(cpython);
        hf_python_domains_install(cpython);
    }
    found = found || function != NULL;
    pthread_mutex_unlock(&lock);
}

/* The library is linked with --wrap=hf_route_new_objects: what the hook of dlopen() calls after an
 * object was loaded. */
void __real_hf_route_new_objects(void); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_route_new_objects(void); // NOLINT(bugprone-reserved-identifier)
void __wrap_hf_route_new_objects(void)  // NOLINT(bugprone-reserved-identifier)
{
    __real_hf_route_new_objects();
    look_for_cpython();
}

__attribute__((constructor(103))) static void start_watching(void)
{
    begun = true;
    look_for_cpython();
}
