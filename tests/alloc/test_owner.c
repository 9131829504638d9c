/* hf_owner_of() identifies heap blocks, freed blocks, data of loaded objects, libc's memory,
 * stacks and unmapped addresses, and says so when nobody can know. Any address may be passed. */
#include "death.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hf_owner owner_of(const void *p)
{
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf_owner_of(p, &owner), 0);
    ck_assert_uint_eq(owner.size, sizeof owner);
    /* There is no device and no interpreter here. */
    ck_assert_int_eq(owner.device, -1);
    ck_assert_int_eq(owner.interpreter, -1);
    return owner;
}

START_TEST(live_blocks)
{
    const size_t sizes[] = {0, 1, 16, 100, 4096, 14336, 20000, 1 << 20, 20 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = hf_malloc(sizes[i]);
        struct hf_owner owner = owner_of(p);
        ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
        ck_assert_str_eq(owner.allocator, "homefree");
        ck_assert_ptr_nonnull(strstr(owner.object, "libhomefree.so"));
        ck_assert_ptr_eq(owner.block, p);
        ck_assert_uint_eq(owner.block_size, hf_usable_size(p));
        hf_free(p);
    }
}
END_TEST

START_TEST(inside_a_block)
{
    const size_t sizes[] = {1, 16, 100, 4096, 14336, 20000, 1 << 20, 40 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = hf_malloc(sizes[i]);
        size_t usable = hf_usable_size(p);
        for (size_t offset = 0; offset < usable; offset = offset * 2 + 1) {
            struct hf_owner owner = owner_of(p + offset);
            ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
            ck_assert_ptr_eq(owner.block, p);
            ck_assert_uint_eq(owner.block_size, usable);
        }
        ck_assert_ptr_eq(owner_of(p + usable - 1).block, p);
        ck_assert_ptr_ne(owner_of(p + usable).block, p);
        ck_assert_ptr_ne(owner_of(p - 1).block, p);
        hf_free(p);
        for (size_t offset = 0; offset < usable; offset = offset * 2 + 1)
            ck_assert_ptr_ne(owner_of(p + offset).block, p);
    }
}
END_TEST

START_TEST(freed_and_never_allocated)
{
    void *p = hf_malloc(5 << 20);
    hf_free(p);
    const void *const addresses[] = {p, (void *)hf_region_range.base,
                                     (void *)(hf_region_range.base + hf_region_range.size / 2),
                                     (void *)(hf_region_range.base + hf_region_range.size - 1)};
    for (size_t i = 0; i < 4; i++) {
        struct hf_owner owner = owner_of(addresses[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_HEAP);
        ck_assert_str_eq(owner.allocator, "homefree");
        ck_assert_ptr_null(owner.block);
        ck_assert_uint_eq(owner.block_size, 0);
    }
}
END_TEST

static int a_static = 1;
static int zeroed[10000];

START_TEST(statics_name_their_object)
{
    const void *const here[] = {&a_static, &zeroed[9999], "a literal"};
    for (size_t i = 0; i < 3; i++) {
        struct hf_owner owner = owner_of(here[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_STATIC);
        ck_assert_ptr_nonnull(strstr(owner.object, "test_owner"));
        ck_assert_ptr_null(owner.block);
    }
    struct hf_owner library = owner_of((void *)(size_t)hf_malloc);
    ck_assert_int_eq(library.kind, HF_OWNER_STATIC);
    ck_assert_ptr_nonnull(library.object);
}
END_TEST

START_TEST(what_nobody_knows)
{
    char *mapped = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *reserved = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Words that look like a chunk of libc's except for size, flags or position. */
    size_t *words = (size_t *)(void *)mapped;
    words[1] = (size_t)1 << 40 | 2;
    words[5] = 8192 | 2;
    words[512 + 1] = 4096;
    words[1024 + 1] = 2048 | 2;
    const void *const addresses[] = {
        mapped,        mapped + 16,        mapped + 48, mapped + 4096 + 16,
        mapped + 8191, mapped + 8192 + 16, shared,      reserved};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct hf_owner owner = owner_of(addresses[i]);
        ck_assert_int_eq(owner.kind, HF_OWNER_UNKNOWN);
        ck_assert_ptr_null(owner.block);
        ck_assert_uint_eq(owner.block_size, 0);
    }
    munmap(mapped, 12288);
    munmap(shared, 4096);
    munmap(reserved, 4096);
}
END_TEST

START_TEST(what_is_not_mapped)
{
    char *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 4096);
    const uintptr_t addresses[] = {0,
                                   1,
                                   4095,
                                   (uintptr_t)gone,
                                   UINTPTR_MAX,
                                   (uintptr_t)1 << 47,
                                   (uintptr_t)1 << 48,
                                   (uintptr_t)1 << 63,
                                   0xffff800000000000,
                                   0x00007ffffffff000,
                                   0xdeadbeefdeadbeef};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        ck_assert_int_eq(owner_of((void *)addresses[i]).kind, HF_OWNER_UNMAPPED);
}
END_TEST

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
static void assert_libcs(const void *p, const void *block, size_t size)
{
    struct hf_owner owner = owner_of(p);
    ck_assert_int_eq(owner.kind, HF_OWNER_LIBC);
    ck_assert_str_eq(owner.allocator, "glibc");
    ck_assert_ptr_nonnull(strstr(owner.object, "libc.so"));
    ck_assert_ptr_eq(owner.block, block);
    ck_assert_uint_eq(owner.block_size, size);
}

START_TEST(libcs_blocks)
{
    const size_t sizes[] = {0, 1, 24, 25, 100, 5000, 100000};
    char *blocks[7];
    for (size_t i = 0; i < 7; i++)
        blocks[i] = calloc(1, sizes[i]);
    for (size_t i = 0; i < 7; i++) {
        size_t usable = malloc_usable_size(blocks[i]);
        assert_libcs(blocks[i], blocks[i], usable);
        assert_libcs(blocks[i] + usable / 2, blocks[i], usable);
        assert_libcs(blocks[i] + usable - 1, blocks[i], usable);
        assert_libcs(blocks[i] - 1, NULL, 0); /* the chunk's header */
    }
    for (size_t i = 0; i < 7; i++)
        free(blocks[i]);
}
END_TEST

START_TEST(libcs_mapped_blocks)
{
    for (size_t size = 1 << 20; size < (size_t)64 << 20; size = size * 3 + 1) {
        char *block = calloc(1, size);
        assert_libcs(block, block, malloc_usable_size(block));
        ck_assert_int_ne(owner_of(block + 4096).kind, HF_OWNER_STACK);
        volatile uintptr_t gone = (uintptr_t)block;
        free(block);
        ck_assert_int_eq(owner_of((void *)gone).kind, HF_OWNER_UNMAPPED);
        void *aligned = NULL;
        ck_assert_int_eq(posix_memalign(&aligned, 65536, size), 0);
        assert_libcs(aligned, aligned, malloc_usable_size(aligned));
        free(aligned);
    }
}
END_TEST

/* A thread, its stack and its arena, asked about from itself and from outside. */
static char *thread_block, *thread_local_address;
static pthread_barrier_t looking;
static __thread char a_thread_local = 1;

static void *stand_still(void *context)
{
    char here = 1;
    thread_block = calloc(1, 100);
    *(char **)context = &here;
    thread_local_address = &a_thread_local;
    must(owner_of(&here).kind == HF_OWNER_STACK);
    must(owner_of(thread_block).kind == HF_OWNER_LIBC);
    pthread_barrier_wait(&looking);
    pthread_barrier_wait(&looking);
    free(thread_block);
    return NULL;
}

START_TEST(threads)
{
    pthread_t thread;
    char *inside = NULL;
    pthread_barrier_init(&looking, NULL, 2);
    /* The main arena is locked, so that the thread gets an arena of its own. */
    ck_assert_int_eq(pthread_create(&thread, NULL, stand_still, &inside), 0);
    pthread_barrier_wait(&looking);
    ck_assert_int_eq(owner_of(inside).kind, HF_OWNER_STACK);
    ck_assert_int_eq(owner_of(inside - 65536).kind, HF_OWNER_STACK);
    ck_assert_int_eq(owner_of(thread_local_address).kind, HF_OWNER_STACK);
    struct hf_owner owner = owner_of(thread_block);
    ck_assert_int_eq(owner.kind, HF_OWNER_LIBC);
    ck_assert_int_eq(owner_of(thread_block + 50).kind, HF_OWNER_LIBC);
    /* Addresses that the arena has not taken yet are not its memory. */
    uintptr_t heap = (uintptr_t)thread_block & -((uintptr_t)64 << 20);
    ck_assert_int_eq(owner_of((void *)(heap + ((uintptr_t)60 << 20))).kind, HF_OWNER_UNKNOWN);
    pthread_barrier_wait(&looking);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&looking);
}
END_TEST

/* A stack that the program made: exact if the thread asks about it itself. */
static void *on_given_stack(void *context)
{
    char here = 1;
    must(owner_of(&here).kind == HF_OWNER_STACK);
    return context;
}

/* An arena that a forked child extends: the kernel keeps what is added as a mapping of its own. */
static void *extend_an_arena(void *context)
{
    enum { BLOCKS = 4 };
    char *blocks[BLOCKS];
    bool known = true;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(70000), 'x', 70000);
    for (int i = 0; i < BLOCKS; i++)
        known = known && owner_of(blocks[i]).kind == HF_OWNER_LIBC &&
                owner_of(blocks[i] + 69999).kind == HF_OWNER_LIBC;
    *(bool *)context = known && owner_of(thread_block).kind == HF_OWNER_LIBC;
    return NULL;
}

START_TEST(arenas_in_a_forked_child)
{
    pthread_t thread;
    char *inside = NULL;
    int status;
    pthread_barrier_init(&looking, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, stand_still, &inside), 0);
    pthread_barrier_wait(&looking);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool known = false;
        must(pthread_create(&thread, NULL, extend_an_arena, &known) == 0);
        must(pthread_join(thread, NULL) == 0);
        _exit(known ? 0 : 9);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    pthread_barrier_wait(&looking);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(stacks_that_the_program_made)
{
    enum { SIZE = 1 << 20 };
    char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, SIZE);
    ck_assert_int_eq(pthread_create(&thread, &attributes, on_given_stack, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    munmap(stack, SIZE);
}
END_TEST

/* Moves the program break behind libc's back, so that the break is no longer libc's alone. sbrk()
 * is looked up by name, because an object that imports it counts as one that may have called it
 * before. */
START_TEST(a_break_that_others_move)
{
    void *block = calloc(1, 100);
    ck_assert_int_eq(owner_of(block).kind, HF_OWNER_LIBC);
    void *(*move_break)(intptr_t) = (void *(*)(intptr_t))dlsym(RTLD_DEFAULT, "sbrk");
    void *mine = move_break(4096);
    ck_assert_ptr_ne(mine, (void *)-1);
    ck_assert_int_eq(owner_of(mine).kind, HF_OWNER_UNKNOWN);
    ck_assert_int_eq(owner_of(block).kind, HF_OWNER_UNKNOWN);
    free(block);
}
END_TEST
#endif

START_TEST(the_main_stack)
{
    /* A sanitizer keeps variables in places of its own. */
    const void *here = __builtin_frame_address(0);
    ck_assert_int_eq(owner_of(here).kind, HF_OWNER_STACK);
    ck_assert_int_eq(owner_of(environ).kind, HF_OWNER_STACK);
    ck_assert_ptr_null(owner_of(here).block);
}
END_TEST

/* Asks about every address at which a mapping begins or ends. */
START_TEST(every_boundary_of_the_process)
{
    static uintptr_t bounds[8192];
    size_t count = 0;
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (count + 2 <= 8192 && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &bounds[count], &bounds[count + 1]) == 2)
            count += 2;
    fclose(maps);
    ck_assert_uint_gt(count, 20);
    size_t kinds[HF_OWNER_UNMAPPED + 1] = {0};
    for (size_t i = 0; i < count; i++)
        for (int offset = -17; offset <= 17; offset++) {
            struct hf_owner owner = owner_of((void *)(bounds[i] + (uintptr_t)(intptr_t)offset));
            ck_assert_int_le(owner.kind, HF_OWNER_UNMAPPED);
            kinds[owner.kind]++;
        }
    ck_assert_uint_gt(kinds[HF_OWNER_STATIC], 0);
    ck_assert_uint_gt(kinds[HF_OWNER_HEAP], 0);
    ck_assert_uint_gt(kinds[HF_OWNER_UNMAPPED], 0);
}
END_TEST

START_TEST(older_and_newer_callers)
{
    void *p = hf_malloc(100);
    struct {
        struct hf_owner known;
        unsigned char unknown[32];
    } owner;
    const size_t ends[] = {offsetof(struct hf_owner, allocator), offsetof(struct hf_owner, object),
                           offsetof(struct hf_owner, block), sizeof owner};
    for (size_t i = 0; i < 4; i++) {
        memset(&owner, 0xaa, sizeof owner);
        owner.known.size = ends[i];
        ck_assert_int_eq(hf_owner_of(p, &owner.known), 0);
        ck_assert_int_eq(owner.known.kind, HF_OWNER_HEAP);
        ck_assert_uint_eq(owner.known.size, ends[i]);
        size_t end = ends[i] < sizeof owner.known ? ends[i] : sizeof owner.known;
        for (size_t at = end; at < sizeof owner; at++)
            ck_assert_uint_eq(((unsigned char *)&owner)[at], 0xaa);
    }
    ck_assert_int_eq(hf_owner_of(p, NULL), -EINVAL);
    for (size_t size = 0; size < offsetof(struct hf_owner, allocator); size++) {
        memset(&owner, 0xaa, sizeof owner);
        owner.known.size = size;
        ck_assert_int_eq(hf_owner_of(p, &owner.known), -EINVAL);
        ck_assert_uint_eq(*(unsigned char *)&owner.known.kind, 0xaa);
    }
    hf_free(p);
}
END_TEST

int main(void)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    /* Under valgrind, malloc and the program break are valgrind's. */
    if (getenv("CK_FORK") == NULL) {
        int failed = RUN_SUITE(libcs_blocks, libcs_mapped_blocks, threads, arenas_in_a_forked_child,
                               stacks_that_the_program_made, a_break_that_others_move);
        if (failed != EXIT_SUCCESS)
            return failed;
    }
#endif
    return RUN_SUITE(live_blocks, inside_a_block, freed_and_never_allocated,
                     statics_name_their_object, what_nobody_knows, what_is_not_mapped,
                     the_main_stack, every_boundary_of_the_process, older_and_newer_callers);
}
