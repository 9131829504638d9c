/*
 * A module that was never linked with homefree allocates from the heap once it is adopted, in every
 * way that C and C++ have; before, it did not. Its pages are protected again, its variables that
 * the program changed are left alone, and the report names each slot. A second adoption finds
 * nothing to do.
 *
 * usage: test-adopt MODULE…
 */
#include "modules/worker.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODULES_MAX = 16 };
static const char *paths[MODULES_MAX];
static int module_count;

static enum hf_owner_kind kind_of(const void *ptr)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(ptr, &owner), 0);
    return owner.kind;
}

static void use(const struct worker_way *way, bool adopted, const char *path)
{
    void *block = way->make();
    ck_assert_msg(block != NULL, "%s of %s", way->name, path);
    ck_assert_msg((kind_of(block) == HF_OWNER_HEAP) == adopted, "%s of %s: kind %d", way->name,
                  path, (int)kind_of(block));
    way->release(block);
}

static void *program_malloc(size_t size)
{
    (void)size;
    return NULL;
}

struct seen {
    const char *path;
    uint64_t changed, refused, mallocs;
};

static void look(const struct hf_route_entry *entry, void *context)
{
    struct seen *seen = context;
    if (strcmp(entry->object, seen->path) != 0)
        return;
    if (entry->state == HF_ROUTE_CHANGED) {
        seen->changed++;
        seen->mallocs += strcmp(entry->function, "malloc") == 0;
        /* Changed slots lead to libhomefree. */
        ck_assert_ptr_nonnull(strstr(object_of(*(void *const *)entry->slot), "libhomefree"));
    } else {
        seen->refused++;
    }
}

static struct seen look_at(const char *path)
{
    struct seen seen = {.path = path};
    struct hf_route_report sums = {.size = sizeof sums};
    ck_assert_int_eq(hf_route_report(&sums, look, &seen), 0);
    ck_assert_uint_ge(sums.changed, seen.changed);
    return seen;
}

START_TEST(every_way_of_every_module)
{
    for (int i = 0; i < module_count; i++) {
        const char *path = paths[i];
        void *handle = load(path, RTLD_LAZY | RTLD_LOCAL);
        const struct worker *worker = ((worker_function *)symbol_of(handle, "worker"))();
        *worker->changed_malloc = program_malloc;
        for (const struct worker_way *way = worker->ways; way->name != NULL; way += 2)
            use(way, false, path); /* the slots of the other ways are not resolved yet */
        void *before = worker->take(1000);
        ck_assert_int_ne(kind_of(before), HF_OWNER_HEAP);
        struct seen routed = look_at(path);
        ck_assert_uint_eq(routed.mallocs, 0);

        int changed = hf_adopt(handle);
        ck_assert_msg(changed > 0, "%s: %d", path, changed);
        assert_relro_is_read_only();
        for (int again = 0; again < 2; again++)
            for (const struct worker_way *way = worker->ways; way->name != NULL; way++)
                use(way, true, path);

        /* Calls by address; what the program stored is left alone. */
        void *block = (*worker->constant_malloc)(10);
        ck_assert_int_eq(kind_of(block), HF_OWNER_HEAP);
        free(block);
        block = (*worker->variable_malloc)(10);
        ck_assert_int_eq(kind_of(block), HF_OWNER_HEAP);
        free(block);
        ck_assert(*worker->changed_malloc == program_malloc);

        /* A block from before stays where it is, also when it grows. */
        memset(before, 42, 1000);
        before = worker->resize(before, 100000);
        ck_assert_int_ne(kind_of(before), HF_OWNER_HEAP);
        ck_assert_int_eq(((char *)before)[999], 42);
        free(before);
        /* A heap block stays in the heap. */
        block = worker->resize(worker->resize(NULL, 10), 100000);
        ck_assert_int_eq(kind_of(block), HF_OWNER_HEAP);
        free(block);

        struct seen adopted = look_at(path);
        ck_assert_msg(adopted.changed > routed.changed, "%s: %d and %d", path, (int)adopted.changed,
                      (int)routed.changed);
        ck_assert_uint_ge(adopted.mallocs, 2);
        ck_assert_uint_eq(adopted.refused, routed.refused);

        /* Adopts again, also after another routing pass. */
        ck_assert_int_eq(hf_adopt(handle), 0);
        dlclose(load("libm.so.6", RTLD_NOW));
        (void)hf_route();
        use(&worker->ways[0], true, path);
        void *resized = worker->resize(NULL, 10);
        ck_assert_int_eq(kind_of(resized), HF_OWNER_HEAP);
        free(resized);
        ck_assert_int_eq(hf_adopt(handle), 0);
        ck_assert_uint_eq(look_at(path).changed, adopted.changed);
    }
}
END_TEST

/* If the heap has no memory, the previous operator reports it in its own way. */
START_TEST(no_memory_is_an_exception)
{
    for (int i = 0; i < module_count; i++) {
        void *handle = load(paths[i], RTLD_NOW | RTLD_LOCAL);
        const struct worker *worker = ((worker_function *)symbol_of(handle, "worker"))();
        ck_assert_int_ge(hf_adopt(handle), 0);
        ck_assert_ptr_null(worker->take((size_t)1 << 62));
    }
}
END_TEST

START_TEST(only_that_object)
{
    /* The calls of the program and of the C++ runtime stay as they are. */
    void *block = malloc(10);
    ck_assert_int_ne(kind_of(block), HF_OWNER_HEAP);
    free(block);
    block = strdup("text");
    ck_assert_int_ne(kind_of(block), HF_OWNER_HEAP);
    free(block);
}
END_TEST

int main(int count, char **arguments)
{
    if (count < 2 || count - 1 > MODULES_MAX)
        return 2;
    guard_against_hanging(100);
    for (int i = 1; i < count; i++)
        paths[module_count++] = arguments[i];
    return RUN_TESTS("adopt", every_way_of_every_module, no_memory_is_an_exception,
                     only_that_object);
}
