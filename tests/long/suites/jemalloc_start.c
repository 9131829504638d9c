/*
 * Linked with jemalloc's own tests (jemalloc_tests.py): starts the heap before them, as
 * libhomefree's constructor does, but with the configuration that the test wants and not with
 * homefree's, which many tests would take for a wrong default. homefree's jemalloc is built without
 * ways of its own to read a configuration from the environment, and is silent once it has started.
 *
 * CONFIGURATION  the variable in which a test may set a configuration
 * MESSAGE        the one that says who writes messages, the tests' own among them
 * UNIT           with unit tests, whose jemalloc has no constructor
 */
#include "alloc/jemalloc/seam.h"

#include <stdio.h>
#include <stdlib.h>

extern const char *CONFIGURATION __attribute__((weak));
extern void (*MESSAGE)(void *context, const char *text);

/* The linker puts the first in the place of hf_heap_boot(), and calls that the second. */
bool __wrap_hf_heap_boot(const char *configuration, bool checks);
bool __real_hf_heap_boot(const char *configuration, bool checks);

bool __wrap_hf_heap_boot(const char *configuration, bool checks)
{
    static char joined[4096];
    const char *set = getenv("HF_JE_MALLOC_CONF");
    const char *built_in = &CONFIGURATION != NULL ? CONFIGURATION : NULL;
    (void)configuration;
    set = set != NULL ? set : "";
    built_in = built_in != NULL ? built_in : "";
    snprintf(joined, sizeof joined, "%s%s%s", built_in,
             *built_in != '\0' && *set != '\0' ? "," : "", set);
    bool started = __real_hf_heap_boot(joined, checks);
    MESSAGE = NULL;
    return started;
}

#ifdef UNIT
/* Two of jemalloc's functions, one of which each unit test calls first: a test may set variables of
 * jemalloc before that. The linker treats them like hf_heap_boot(). */
size_t __wrap_jet_nallocx(size_t size, int flags);
size_t __real_jet_nallocx(size_t size, int flags);
void *__wrap_jet_a0malloc(size_t size);
void *__real_jet_a0malloc(size_t size);

size_t __wrap_jet_nallocx(size_t size, int flags)
{
    hf_heap_start();
    return __real_jet_nallocx(size, flags);
}

void *__wrap_jet_a0malloc(size_t size)
{
    hf_heap_start();
    return __real_jet_a0malloc(size);
}

/* Starts jemalloc, as any first call of its functions does. */
void jemalloc_constructor(void);
void jemalloc_constructor(void)
{
    (void)__real_jet_nallocx(1, 0);
}
#else
__attribute__((constructor)) static void start(void)
{
    hf_heap_start();
}
#endif
