/*
 * Processes that run out of memory: RLIMIT_AS and RLIMIT_DATA that are lowered while the process
 * runs, or were low when it started, and a full region. Whoever asks for too much gets NULL and
 * ENOMEM; a block that cannot grow stays as it is; everything can be freed, and then as much can be
 * allocated as before. Several threads do this at once.
 */
#include "storms.h"

#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, HELD = 20000, ROUNDS = 3 };
#define ROOM ((size_t)96 << 20) /* bytes that a process may still take */

static atomic_ulong *refusals; /* shared with children */

struct hoard {
    void **blocks;
    unsigned count;
    size_t bytes;
    uint64_t random;
};

/* Result: whether there was memory. */
static bool add(struct hoard *hoard)
{
    /* Small blocks and large ones, of the heap and of libc. */
    const size_t size = storm_random(&hoard->random) % 4 == 0
                            ? 4096 + storm_random(&hoard->random) % (1 << 20)
                            : SMALLEST_BLOCK + storm_random(&hoard->random) % 5000;
    errno = 0;
    void *block = storm_random(&hoard->random) % 4 == 0 ? malloc(size) : hf_malloc(size);
    if (block == NULL) {
        STORM_MUST(errno == ENOMEM);
        *refusals += 1;
        return false;
    }
    storm_block_fill(block, size);
    hoard->blocks[hoard->count++] = block;
    hoard->bytes += size;
    return true;
}

static void grow_too_far(struct hoard *hoard)
{
    void **place = &hoard->blocks[storm_random(&hoard->random) % hoard->count];
    errno = 0;
    void *grown = hf_realloc(*place, (size_t)1 << 45);
    STORM_MUST(grown == NULL && errno == ENOMEM);
    (void)storm_block_check(*place);
}

static void drop(struct hoard *hoard, unsigned left)
{
    while (hoard->count > left) {
        void *block = hoard->blocks[--hoard->count];
        hoard->bytes -= storm_block_check(block);
        if (storm_random(&hoard->random) % 2 == 0)
            free(block);
        else
            hf_free(block);
    }
}

static void *take_all(void *argument)
{
    struct hoard *hoard = argument;
    for (int round = 0; round < ROUNDS; round++) {
        while (hoard->count < HELD && add(hoard))
            ;
        if (hoard->count > 0)
            grow_too_far(hoard);
        drop(hoard, hoard->count / 2);
    }
    drop(hoard, 0);
    return NULL;
}

/* Result: the bytes that fit into the process in one piece after the other. */
static size_t fits(void)
{
    enum { PIECE = 1 << 20, PIECES = 64 };
    void *pieces[PIECES];
    int count = 0;
    while (count < PIECES && (pieces[count] = hf_malloc(PIECE)) != NULL)
        count++;
    for (int i = 0; i < count; i++)
        hf_free(pieces[i]);
    return (size_t)count * PIECE;
}

/* In a process of its own. surely: whether the limit is reached before the threads have enough. */
static void exhaust(bool surely)
{
    pthread_t threads[THREADS];
    struct hoard hoards[THREADS];
    const size_t lists = THREADS * HELD * sizeof(void *);
    /* Not of the heap: what the test itself needs must be there. */
    char *memory = mmap(NULL, lists, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STORM_MUST(memory != MAP_FAILED);
    const size_t before = fits();
    unsigned started = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        hoards[i] = (struct hoard){.blocks = (void **)(void *)memory + (size_t)i * HELD,
                                   .random = i + 7 + (uint64_t)getpid()};
        if (pthread_create(&threads[i], NULL, take_all, &hoards[i]) != 0)
            break; /* there is no memory for its stack */
        started++;
    }
    struct hoard own = {.blocks = (void **)(void *)memory + (size_t)started * HELD, .random = 5};
    if (started < THREADS)
        take_all(&own);
    for (unsigned i = 0; i < started; i++)
        STORM_MUST(pthread_join(threads[i], NULL) == 0);
    if (surely && *refusals == 0)
        storm_failed("a limit", "was never reached");
    if (fits() < before / 2)
        storm_failed("after all was freed", "much less fits than before");
    munmap(memory, lists);
}

static atomic_ulong *shared_count(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STORM_MUST(page != MAP_FAILED);
    return page;
}

void storm_limited(void)
{
    refusals = shared_count();
    exhaust(true);
}

static size_t pages_of(int field)
{
    char text[200];
    size_t values[7] = {0};
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    sscanf(text, "%zu %zu %zu %zu %zu %zu", &values[0], &values[1], &values[2], &values[3],
           &values[4], &values[5]);
    return values[field];
}

static void limit(int what, size_t bytes)
{
    const struct rlimit limit = {bytes, bytes};
    STORM_MUST(setrlimit(what, &limit) == 0);
}

/* The heap's address space counts already: only libc's malloc reaches the limit. */
static void lowered_as(void)
{
    limit(RLIMIT_AS, pages_of(0) * 4096 + ROOM);
    exhaust(!heap_serves_all());
    _exit(0);
}

static void lowered_data(void)
{
    limit(RLIMIT_DATA, pages_of(5) * 4096 + ROOM);
    exhaust(true);
    _exit(0);
}

static void become_limited(void)
{
    char *arguments[] = {(char *)(uintptr_t)storm_program, (char *)(uintptr_t) "limited",
                         (char *)(uintptr_t) "1", (char *)(uintptr_t)modules[0], NULL};
    dup2(open("/dev/null", O_WRONLY), 1);
    execv(storm_program, arguments);
    storm_failed(storm_program, "cannot be started");
}

static void started_with_as(void)
{
    limit(RLIMIT_AS, (size_t)512 << 20);
    become_limited();
}

static void started_with_region(void)
{
    setenv("HOMEFREE_CONF", "region:64M", 1);
    become_limited();
}

static void run(void (*function)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        function();
        _exit(1);
    }
    int status;
    STORM_MUST(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0)
        storm_failed("a limited process",
                     WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended with an error");
    figures.forks++;
}

void storm_limits(void)
{
    void (*const kinds[])(void) = {lowered_as, lowered_data, started_with_as, started_with_region};
    refusals = shared_count();
    const unsigned count = storm_program != NULL ? 4 : 2;
    pthread_t clock;
    STORM_MUST(pthread_create(&clock, NULL, (void *(*)(void *))(void (*)(void))storm_wait, NULL) ==
               0);
    for (unsigned i = 0; !storm_over || i < count; i++)
        run(kinds[i % count]);
    pthread_join(clock, NULL);
    figures.refusals = *refusals;
    munmap(refusals, 4096);
}
