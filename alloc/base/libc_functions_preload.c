/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libc's malloc family in a library that itself exports malloc (whole-process mode):
 * libc_functions.c would find that library's own functions. Used instead of that file.
 *
 * Owns the table, which hf_libc_start() completes once; it is sealed afterwards and read without a
 * lock. Until then it holds glibc's functions under names that hardly anybody interposes.
 */
#include "alloc/base/dynlink.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/seal.h"

#include <gnu/libc-version.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void __libc_free(void *ptr);
extern int __libc_mallopt(int parameter, int value);

static size_t no_usable_size(void *ptr)
{
    (void)ptr;
    return 0;
}

static HF_SEALED_UNION(struct hf_libc, it) table HF_SEALED = {
    .it = {__libc_malloc, __libc_calloc, __libc_memalign, __libc_realloc, __libc_free,
           no_usable_size},
};
extern const struct hf_libc hf_libc_functions __attribute__((alias("table")));
const bool hf_whole_process = true;

/* Reads the functions of an object that serves the process instead of this library, such as a
 * program that is linked with an allocator. False if it lacks one that cannot be done without. */
static bool read_functions(const struct hf_object *object, struct hf_libc *out)
{
    struct hf_libc found = {
        .malloc = (void *(*)(size_t))hf_object_address(object, "malloc"),
        .calloc = (void *(*)(size_t, size_t))hf_object_address(object, "calloc"),
        .memalign = (void *(*)(size_t, size_t))hf_object_address(object, "memalign"),
        .realloc = (void *(*)(void *, size_t))hf_object_address(object, "realloc"),
        .free = (void (*)(void *))hf_object_address(object, "free"),
        .usable_size = (size_t(*)(void *))hf_object_address(object, "malloc_usable_size"),
    };
    if (found.memalign == NULL)
        found.memalign = (void *(*)(size_t, size_t))hf_object_address(object, "aligned_alloc");
    if (found.memalign == NULL)
        found.memalign = __libc_memalign; /* as the process itself gets it */
    if (found.usable_size == NULL)
        found.usable_size = no_usable_size;
    if (found.malloc == NULL || found.calloc == NULL || found.realloc == NULL || found.free == NULL)
        return false;
    *out = found;
    return true;
}

static bool replaced;

/* Looks for an object in front of this one, and otherwise takes libc's own functions: tcmalloc
 * defines those of the table as well. */
static void look_up(struct hf_libc *out)
{
    const struct link_map *own = hf_dynlink_find(&table);
    const struct link_map *libc = hf_dynlink_find((const void *)gnu_get_libc_version);
    struct hf_object object;
    const struct link_map *map = hf_dynlink_first();
    for (; !replaced && map != NULL && map != own && map != libc; map = map->l_next)
        replaced = hf_dynlink_open(map, &object) && read_functions(&object, out);
    if (!replaced && libc != NULL && hf_dynlink_open(libc, &object))
        (void)read_functions(&object, out);
}

bool hf_libc_is_replaced(void)
{
    return replaced;
}

void hf_libc_start(void)
{
    static bool done;
    struct hf_libc found = table.it;
    struct hf_seal seal;
    if (done)
        return;
    done = true;
    look_up(&found);
    hf_seal_open_to_start(&seal);
    table.it = found;
    hf_seal_close(&seal);
    /* glibc starts its malloc in the first call, without a lock, because no other thread exists
     * then. Here it would be a call during a fork, and several threads may make that at once. */
    enum { NO_PARAMETER = 0 };
    (void)__libc_mallopt(NO_PARAMETER, 0);
}
