/* Two versions of libhomefree that cannot share a heap: the later one says so in one line that
 * names both files, serves its modules from libc, and still sends the heap's pointers home.
 *
 *   test_copies_incompatible HEAP INCOMPATIBLE */
#include "copies.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *paths[2];

/* Checks the heap against a copy that cannot forward to it. */
static void must_be_incompatible(const struct copy *heap, const struct copy *incompatible)
{
    struct hf_stats stats = {.size = sizeof stats};
    struct hf_owner owner = {.size = sizeof owner};
    must(copy_stats(heap).forwards == 0);
    must(incompatible->stats(&stats) == -ENOTSUP);
    must(incompatible->owner_of(heap, &owner) == -ENOTSUP);
    must(incompatible->route() == -ENOTSUP);
    struct hf_watch *watch = NULL;
    must(incompatible->watch_begin(&watch, 0) == -ENOTSUP && watch == NULL);
    must(incompatible->fail_at(1, 0) == -ENOTSUP);
    must(incompatible->fail_end(0, NULL) == -ENOTSUP);

    /* The incompatible copy allocates from libc. */
    const size_t sizes[] = {0, 10, 1000, 20000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        char *theirs[] = {incompatible->malloc(size), incompatible->calloc(1, size),
                          incompatible->memalign(4096, size),
                          incompatible->realloc(NULL, size + 1)};
        for (size_t k = 0; k < 4; k++) {
            must(theirs[k] != NULL && !heap->owns(theirs[k]));
            must(incompatible->usable_size(theirs[k]) >= size);
            memset(theirs[k], 7, size);
        }
        incompatible->free(theirs[0]);
        heap->free(theirs[1]);
        incompatible->free(heap->realloc(theirs[2], size + 5000));
        char *grown = incompatible->realloc(theirs[3], size + 5000);
        must(grown != NULL && !heap->owns(grown) && (size == 0 || grown[size - 1] == 7));
        free(grown);
    }
    char *s = incompatible->strdup("libc's");
    must(!heap->owns(s));
    free(s);

    /* It sends the heap's blocks home. */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *ours = heap->malloc(sizes[i]);
        must(incompatible->owns(ours) &&
             incompatible->usable_size(ours) == heap->usable_size(ours));
        ours = incompatible->realloc(ours, 5 << 20);
        must(ours != NULL && heap->owns(ours));
        incompatible->free(ours);
        must(!copy_has(heap, ours));
    }
}

static int records_freed;

static void count_record(void *pointer)
{
    free(pointer);
    records_freed++;
}

/* Its records work too, in libc's memory, and either copy can drop them. */
static void must_have_records(const struct copy *heap, const struct copy *incompatible)
{
    const struct copy *droppers[] = {incompatible, heap};
    struct hf_stats before = copy_stats(heap);
    for (int i = 0; i < 2; i++) {
        struct hf_release *record = NULL;
        records_freed = 0;
        must(incompatible->release_new(&record, incompatible->malloc(10), count_record, "record") ==
             0);
        must(incompatible->release_is(record) && !incompatible->release_is(NULL));
        droppers[i]->release_drop(record);
        must(records_freed == 1);
    }
    must(copy_stats(heap).releases_run == before.releases_run);
}

static void heap_first(void *unused)
{
    (void)unused;
    struct copy heap = copy_open(paths[0]), incompatible = copy_open(paths[1]);
    must_be_incompatible(&heap, &incompatible);
    must_have_records(&heap, &incompatible);
}

static void incompatible_first(void *unused)
{
    (void)unused;
    struct copy heap = copy_open(paths[1]), incompatible = copy_open(paths[0]);
    must_be_incompatible(&heap, &incompatible);
    must_have_records(&heap, &incompatible);
}

static void assert_one_line(void (*body)(void *), const char *later)
{
    assert_exited(outcome_of_call(body, NULL), 0, 1, "homefree: libhomefree " HF_VERSION " (",
                  later, paths[0], paths[1], "cannot join the heap", "from libc instead");
}

START_TEST(the_later_one_stands_aside)
{
    char later[4200];
    snprintf(later, sizeof later, "homefree: libhomefree " HF_VERSION " (%s) cannot", paths[1]);
    assert_one_line(heap_first, later);
    snprintf(later, sizeof later, "homefree: libhomefree " HF_VERSION " (%s) cannot", paths[0]);
    assert_one_line(incompatible_first, later);
}
END_TEST

/* A wrong free of the heap's pointer is reported by the heap. */
static void free_twice_through_the_incompatible(void *unused)
{
    (void)unused;
    struct copy heap = copy_open(paths[0]), incompatible = copy_open(paths[1]);
    void *p = heap.malloc(5 << 20);
    incompatible.free(p);
    incompatible.free(p);
}

START_TEST(a_double_free_through_it_is_found)
{
    struct outcome outcome;
    outcome_of_function(&outcome, free_twice_through_the_incompatible, NULL);
    ck_assert(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == 6);
    ck_assert_ptr_nonnull(strstr(outcome.text, "\nhomefree: fatal: free(0x"));
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&paths[0], &paths[1]);
    return RUN_SUITE(the_later_one_stands_aside, a_double_free_through_it_is_found);
}
