/*
 * The owner of each page stays correct while a known allocator's module maps, unmaps, moves and
 * replaces memory through every function there is; pages that others map in the same place are not
 * attributed to it.
 *
 * usage: test-mapper WORDS FUNCTIONS USER
 */
#include "death.h"
#include "modules/mapper.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *words_path, *functions_path, *user_path;

enum {
    PAGE = 4096,
    LARGE = 1 << 20,
    PLAIN = MAP_PRIVATE | MAP_ANONYMOUS,
    BOTH = PROT_READ | PROT_WRITE
};

static const struct mapper *load_mapper(const char *path)
{
    return ((mapper_function *)symbol_of(load(path, RTLD_NOW), "mapper"))();
}

static enum hf_owner_kind kind_of(const void *ptr)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(ptr, &owner), 0);
    return owner.kind;
}

static bool is_theirs(const void *ptr)
{
    return kind_of(ptr) == HF_OWNER_ALLOCATOR;
}

START_TEST(mapped_and_unmapped)
{
    const struct mapper *mapper = load_mapper(words_path);
    char *at = mapper->map(NULL, LARGE, BOTH, PLAIN, -1, 0);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(at + LARGE - 1, &owner), 0);
    ck_assert_int_eq(owner.kind, HF_OWNER_ALLOCATOR);
    ck_assert_str_eq(owner.allocator, "mimalloc");
    ck_assert_ptr_nonnull(strstr(owner.object, "mapper-words.so"));
    ck_assert(is_theirs(at));
    /* The middle, then both ends. */
    ck_assert_int_eq(mapper->unmap(at + 16 * PAGE, 16 * PAGE), 0);
    ck_assert_int_eq(kind_of(at + 16 * PAGE), HF_OWNER_UNMAPPED);
    ck_assert(is_theirs(at + 16 * PAGE - 1) && is_theirs(at + 32 * PAGE));
    /* Others' memory in the hole is not the module's. */
    void *others = mmap(at + 16 * PAGE, PAGE, BOTH, PLAIN | MAP_FIXED, -1, 0);
    ck_assert_ptr_eq(others, at + 16 * PAGE);
    ck_assert_int_eq(kind_of(others), HF_OWNER_UNKNOWN);
    ck_assert_int_eq(munmap(at, LARGE), 0); /* unmapped by somebody else */
    for (size_t offset = 0; offset < LARGE; offset += PAGE)
        ck_assert_int_eq(kind_of(at + offset), HF_OWNER_UNMAPPED);
    others = mmap(at, LARGE, BOTH, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
    ck_assert_ptr_eq(others, at);
    ck_assert(!is_theirs(at) && !is_theirs(at + LARGE - 1));
    munmap(at, LARGE);
}
END_TEST

/* libc's own mappings come to the same addresses, by calls that nobody sees. */
START_TEST(libc_maps_where_they_were)
{
    const struct mapper *mapper = load_mapper(words_path);
    int same = 0;
    mallopt(M_MMAP_THRESHOLD, 64 * 1024);
    for (int i = 0; i < 200; i++) {
        char *at = mapper->map(NULL, LARGE, BOTH, PLAIN, -1, 0);
        if (i % 2 == 0)
            mapper->unmap(at, LARGE);
        else
            mapper->unmap_by_number(at, LARGE);
        char *block = calloc(1, LARGE - 100);
        same += block > at && block < at + LARGE;
        ck_assert(!is_theirs(block));
        free(block);
    }
    ck_assert_int_gt(same, 0);
}
END_TEST

START_TEST(what_is_not_recorded)
{
    const struct mapper *mapper = load_mapper(words_path);
    int file = memfd_create("mapped", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(file, 4 * PAGE), 0);
    const char text[] = "second page";
    ck_assert_int_eq(pwrite(file, text, sizeof text, PAGE), sizeof text);
    char *at = mapper->map(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, PAGE);
    ck_assert_str_eq(at, text);
    ck_assert(!is_theirs(at));
    at = mapper->map_by_number(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, PAGE);
    ck_assert_str_eq(at, text);
    ck_assert(!is_theirs(at));
    at = mapper->map(NULL, PAGE, BOTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(!is_theirs(at));
    /* A mapping of a file replaces memory that was recorded. */
    at = mapper->map(NULL, 2 * PAGE, BOTH, PLAIN, -1, 0);
    ck_assert(is_theirs(at));
    ck_assert_ptr_eq(mapper->map(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0), at);
    ck_assert(!is_theirs(at) && is_theirs(at + PAGE));
    close(file);
}
END_TEST

START_TEST(moved_by_mremap)
{
    const struct mapper *mapper = load_mapper(words_path);
    char *at = mapper->map(NULL, 8 * PAGE, BOTH, PLAIN, -1, 0);
    /* In place: fails to grow, then shrinks. */
    ck_assert_ptr_eq(mapper->remap(at, 8 * PAGE, (size_t)1 << 46, 0), MAP_FAILED);
    ck_assert(is_theirs(at) && is_theirs(at + 8 * PAGE - 1));
    ck_assert_ptr_eq(mapper->remap(at, 8 * PAGE, 4 * PAGE, 0), at);
    ck_assert(is_theirs(at + 4 * PAGE - 1));
    ck_assert_int_eq(kind_of(at + 4 * PAGE), HF_OWNER_UNMAPPED);
    /* A mapping behind it forces it to move. */
    ck_assert_ptr_ne(mmap(at + 4 * PAGE, PAGE, PROT_NONE, PLAIN | MAP_FIXED, -1, 0), MAP_FAILED);
    char *moved = mapper->remap(at, 4 * PAGE, LARGE, MREMAP_MAYMOVE);
    ck_assert_ptr_ne(moved, at);
    ck_assert(is_theirs(moved) && is_theirs(moved + LARGE - 1));
    ck_assert_int_eq(kind_of(at), HF_OWNER_UNMAPPED);
    ck_assert_ptr_eq(mapper->remap(moved, LARGE, (size_t)1 << 46, MREMAP_MAYMOVE), MAP_FAILED);
    ck_assert(is_theirs(moved) && is_theirs(moved + LARGE - 1));
}
END_TEST

START_TEST(by_number_and_by_the_break)
{
    const struct mapper *mapper = load_mapper(words_path);
    char *at = mapper->map_by_number(NULL, LARGE, BOTH, PLAIN, -1, 0);
    ck_assert(is_theirs(at) && is_theirs(at + LARGE - 1));
    ck_assert_int_eq(mapper->unmap_by_number(at, LARGE), 0);
    ck_assert_int_eq(kind_of(at), HF_OWNER_UNMAPPED);
    ck_assert_int_eq(mapper->call_by_number(SYS_getpid, NULL), getpid());
    char *end = mapper->move_break(0);
    char *grown = mapper->move_break(64 * PAGE);
    ck_assert_ptr_eq(grown, end);
    ck_assert(is_theirs(grown) && is_theirs(grown + 64 * PAGE - 1));
    ck_assert_ptr_eq(mapper->move_break(-32 * PAGE), grown + 64 * PAGE);
    ck_assert(is_theirs(grown) && !is_theirs(grown + 32 * PAGE));
    /* libc continues behind it. */
    for (int i = 0; i < 1000; i++) {
        char *block = calloc(1, 5000);
        ck_assert(!is_theirs(block));
    }
}
END_TEST

/* UCX calls brk(2) this way while it is loaded; Debian 13's torch loads UCX. */
START_TEST(by_number_with_six_arguments)
{
    const struct mapper *mapper = load_mapper(functions_path);
    char *at = mapper->map(NULL, 2 * PAGE, BOTH, PLAIN, -1, 0);
    bool kept = false;
    ck_assert_int_eq(mapper->call_and_look(&kept, SYS_getpid, NULL, 0, 0), getpid());
    ck_assert_msg(kept, "getpid");
    ck_assert_ptr_eq((void *)mapper->call_and_look(&kept, SYS_mremap, at, 2 * PAGE, PAGE), at);
    ck_assert_msg(kept, "mremap");
    ck_assert_int_eq(mapper->call_and_look(&kept, SYS_munmap, at, PAGE, 0), 0);
    ck_assert_msg(kept, "munmap");
    ck_assert_int_eq(kind_of(at), HF_OWNER_UNMAPPED);
    ck_assert_ptr_eq((void *)mapper->call_and_look(&kept, SYS_brk, NULL, 0, 0), sbrk(0));
    ck_assert_msg(kept, "brk");
}
END_TEST

START_TEST(errors_are_as_they_were)
{
    const struct mapper *mapper = load_mapper(words_path);
    errno = 0;
    ck_assert_ptr_eq(mapper->map(NULL, 0, BOTH, PLAIN, -1, 0), MAP_FAILED);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_eq(mapper->map(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0), MAP_FAILED);
    ck_assert_int_eq(errno, EBADF);
    char *at = mapper->map(NULL, 2 * PAGE, BOTH, PLAIN, -1, 0);
    ck_assert_int_eq(mapper->unmap(at + 1, PAGE), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(mapper->unmap(at, 0), -1);
    ck_assert_int_eq(mapper->unmap(at, SIZE_MAX / 2), -1);
    ck_assert(is_theirs(at) && is_theirs(at + PAGE));
    errno = 42;
    at = mapper->map(NULL, PAGE, BOTH, PLAIN, -1, 0);
    ck_assert_int_eq(mapper->unmap(at, PAGE), 0);
    ck_assert_int_eq(mapper->call_by_number(SYS_getppid, NULL), getppid());
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(large_ranges)
{
    const struct mapper *mapper = load_mapper(words_path);
    const size_t size = (size_t)9 << 30, flags = PLAIN | MAP_NORESERVE;
    char *at = mapper->map(NULL, size, PROT_NONE, (int)flags, -1, 0);
    if (at == MAP_FAILED)
        return; /* there is a limit on address space */
    for (size_t offset = 0; offset < size; offset += (size_t)255 << 20)
        ck_assert(is_theirs(at + offset));
    ck_assert(is_theirs(at + size - 1));
    mapper->unmap(at + ((size_t)4 << 30) + PAGE, PAGE);
    ck_assert(is_theirs(at + ((size_t)4 << 30)));
    ck_assert(!is_theirs(at + ((size_t)4 << 30) + PAGE));
    ck_assert(is_theirs(at + ((size_t)4 << 30) + 2 * PAGE));
    mapper->unmap(at, size);
    for (size_t offset = 0; offset < size; offset += (size_t)255 << 20)
        ck_assert(!is_theirs(at + offset));
}
END_TEST

/* ---- allocators that can be called ---- */

START_TEST(blocks_go_home)
{
    const struct mapper *mapper = load_mapper(functions_path);
    const struct user *user = load_user(user_path, RTLD_NOW);
    void (*const releases[])(void *) = {free, hf_free, user->release, user->constant->release};
    for (int i = 0; i < 4; i++) {
        char *block = mapper->allocate(100);
        struct hf_owner owner = {.size = sizeof owner};
        hf_owner_of(block, &owner);
        ck_assert_str_eq(owner.allocator, "rpmalloc");
        releases[i](block);
        ck_assert_int_eq(*mapper->released, i + 1);
    }
    void *(*const resizes[])(void *, size_t) = {realloc, hf_realloc, user->resize};
    for (int i = 0; i < 3; i++) {
        char *block = resizes[i](strcpy(mapper->allocate(100), "content"), 9000);
        ck_assert_int_eq(*mapper->resized, i + 1);
        ck_assert_str_eq(block, "content");
        ck_assert(is_theirs(block));
        ck_assert_uint_eq(user->measure(block), 9000);
        ck_assert_uint_eq(hf_usable_size(block), 9000);
        /* A resize to 0 frees, as libc's does, whatever the other allocator would do. */
        int released = *mapper->released;
        ck_assert_ptr_null(resizes[i](block, 0));
        ck_assert_int_eq(*mapper->released, released + 1);
    }
    /* libc grows a buffer of the other allocator. */
    size_t size = 4;
    char *line = mapper->allocate(size);
    FILE *stream = fmemopen((char[]){"a line that is longer than four\n"}, 32, "r");
    ck_assert_int_eq(getline(&line, &size, stream), 32);
    fclose(stream);
    ck_assert_str_eq(line, "a line that is longer than four\n");
    ck_assert(is_theirs(line));
    free(line);
}
END_TEST

START_TEST(it_stays_after_dlclose)
{
    void *handle = load(functions_path, RTLD_NOW);
    const struct mapper *mapper = ((mapper_function *)symbol_of(handle, "mapper"))();
    char *block = mapper->allocate(100);
    dlclose(handle);
    free(block);
    ck_assert_int_eq(*mapper->released, 1);
}
END_TEST

/* ---- allocators that cannot be called ---- */

static const struct mapper *silent;

static void free_theirs(void *context)
{
    ((const struct user *)context)->release(silent->map(NULL, PAGE, BOTH, PLAIN, -1, 0));
}

static void resize_theirs(void *context)
{
    ((const struct user *)context)->resize(silent->map(NULL, PAGE, BOTH, PLAIN, -1, 0), 10);
}

static void free_theirs_by_name(void *context)
{
    (void)context;
    hf_free(silent->map(NULL, PAGE, BOTH, PLAIN, -1, 0));
}

START_TEST(nothing_can_be_called)
{
    silent = load_mapper(words_path);
    const struct user *user = load_user(user_path, RTLD_NOW);
    assert_killed(outcome_of_call(free_theirs, (void *)(uintptr_t)user), SIGABRT,
                  "homefree: fatal: free(0x", "belongs to the mimalloc inside", "mapper-words.so",
                  "called from", "libc, which did not allocate it", "debug file");
    assert_killed(outcome_of_call(resize_theirs, (void *)(uintptr_t)user), SIGABRT,
                  "fatal: realloc(0x", "mapper-words.so", "called from");
    assert_killed(outcome_of_call(free_theirs_by_name, NULL), SIGABRT, "fatal: free(0x",
                  "mapper-words.so", "test-mapper");
    void *block = silent->map(NULL, PAGE, BOTH, PLAIN, -1, 0);
    ck_assert_uint_eq(user->measure(block), 0);
}
END_TEST

START_TEST(unloaded_it_is_forgotten)
{
    void *handle = load(words_path, RTLD_NOW);
    const struct mapper *mapper = ((mapper_function *)symbol_of(handle, "mapper"))();
    void *block = mapper->map(NULL, PAGE, BOTH, PLAIN, -1, 0);
    ck_assert(is_theirs(block));
    ck_assert_int_eq(dlclose(handle), 0);
    (void)load_user(user_path, RTLD_NOW); /* runs a pass */
    ck_assert_int_eq(kind_of(block), HF_OWNER_UNKNOWN);
    /* It is known again after it is loaded again. */
    mapper = load_mapper(words_path);
    ck_assert(is_theirs(mapper->map(NULL, PAGE, BOTH, PLAIN, -1, 0)));
    ck_assert_int_eq(kind_of(block), HF_OWNER_UNKNOWN);
}
END_TEST

/* ---- the report ---- */

static void look_for_remark(const struct hf_route_entry *entry, void *context)
{
    if (entry->reason != NULL && strstr(entry->reason, "an allocator lives inside: ") != NULL) {
        ck_assert_int_eq(entry->state, HF_ROUTE_OUT_OF_REACH);
        strcat(strcat(context, entry->reason), "\n");
    }
}

START_TEST(the_report_names_them)
{
    static char remarks[2048];
    ck_assert_int_eq(hf_route_report(NULL, look_for_remark, remarks), 0);
    ck_assert_str_eq(remarks, "");
    (void)load_mapper(words_path)->map(NULL, PAGE, BOTH, PLAIN, -1, 0);
    (void)load_mapper(functions_path);
    ck_assert_int_eq(hf_route_report(NULL, look_for_remark, remarks), 0);
    ck_assert_ptr_nonnull(strstr(remarks, "mimalloc; its blocks cannot be sent home"));
    ck_assert_ptr_nonnull(strstr(remarks, "rpmalloc; its blocks go home to it"));
    /* A pass that starts over, because an object was unloaded, finds no allocator twice. */
    ck_assert_int_eq(dlclose(load(user_path, RTLD_NOW)), 0);
    (void)load(user_path, RTLD_NOW);
    remarks[0] = '\0';
    ck_assert_int_eq(hf_route_report(NULL, look_for_remark, remarks), 0);
    const char *first = strstr(remarks, "rpmalloc");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "rpmalloc"));
}
END_TEST

/* ---- threads, signals, forks ---- */

static const struct mapper *shared;
static atomic_int stop;

static void *keep_mapping(void *context)
{
    (void)context;
    while (!stop) {
        char *at = shared->map(NULL, 32 * PAGE, BOTH, PLAIN, -1, 0);
        must(at != MAP_FAILED);
        struct hf_owner owner = {.size = sizeof owner};
        must(hf_owner_of(at + 31 * PAGE, &owner) == 0 && owner.kind == HF_OWNER_ALLOCATOR);
        must(shared->unmap(at, 32 * PAGE) == 0);
    }
    return NULL;
}

/* libc maps and unmaps blocks where the others have just unmapped theirs. */
START_TEST(many_threads)
{
    pthread_t threads[4];
    shared = load_mapper(words_path);
    /* The first mapping decides which allocator it is. Until then, no thread can be told. */
    ck_assert_ptr_ne(shared->map(NULL, PAGE, BOTH, PLAIN, -1, 0), MAP_FAILED);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, keep_mapping, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        char *block = malloc((size_t)32 * PAGE + (size_t)i % 7 * PAGE);
        block[0] = 1;
        free(block); /* ends the process if the block is taken for theirs */
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static void map_in_handler(int number)
{
    (void)number;
    void *at = shared->map(NULL, PAGE, BOTH, PLAIN, -1, 0);
    must(at != MAP_FAILED && shared->unmap(at, PAGE) == 0);
}

START_TEST(signals)
{
    shared = load_mapper(words_path);
    signal(SIGUSR1, map_in_handler);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, keep_mapping, NULL), 0);
    for (int i = 0; i < 2000; i++)
        pthread_kill(threads[i % 2], SIGUSR1);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static void use_after_fork(void *context)
{
    must(hf_usable_size(context) == 100);
    free(context);
    for (int i = 0; i < 100; i++)
        free(shared->allocate(1000));
    must(*shared->released == 101);
}

START_TEST(after_fork)
{
    shared = load_mapper(functions_path);
    void *block = shared->allocate(100);
    assert_succeeds(outcome_of_call(use_after_fork, block));
    ck_assert(is_theirs(block));
    free(block);
    ck_assert_int_eq(*shared->released, 1);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&words_path, &functions_path, &user_path);
    need_found_objects();
    return RUN_TESTS("mapper", mapped_and_unmapped, libc_maps_where_they_were, what_is_not_recorded,
                     moved_by_mremap, by_number_and_by_the_break, by_number_with_six_arguments,
                     errors_are_as_they_were, large_ranges, blocks_go_home, it_stays_after_dlclose,
                     nothing_can_be_called, unloaded_it_is_forgotten, the_report_names_them,
                     many_threads, signals, after_fork);
}
