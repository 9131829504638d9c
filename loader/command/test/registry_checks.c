/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the blocks of one check, in a process that has no other task. See registry_checks.h. Each
 * sentence that refuses is one of docs/registry.md.
 */
#include "loader/command/test/registry_checks.h"

#include "loader/command/test/registry_said.h"
#include "loader/command/test/registry_time.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef const struct allocator_registry member_t;

/* ---- rules ---- */

#define RULE_FOREIGN   "owns answers NOT_MINE for every address outside of the allocator's memory"
#define RULE_BLOCK     "owns knows the first byte of every live block"
#define RULE_FIRST     "TELLS_FIRST: owns tells a block's first byte from its others"
#define RULE_INSIDE    "owns denies no byte of a live block without DENIES_INSIDE"
#define RULE_DEAD      "TELLS_DEAD: a freed block is never BLOCK or INSIDE"
#define RULE_READS     "owns reads only memory that is the allocator's own"
#define RULE_LOCK      "owns takes no lock, and may be called in a signal handler"
#define RULE_FORK      "owns may be called in a forked child at any time"
#define RULE_ERRNO     "no function but allocate and resize changes errno"
#define RULE_USABLE    "usable_size is at least what was asked for, and all of it may be used"
#define RULE_ALIGNMENT "allocate returns a multiple of the alignment"
#define RULE_RESIZE    "resize keeps the contents"
#define RULE_THREADS   "every function may be called by any thread"
#define RULE_WALK      "walk visits the allocator's own memory, and live blocks as BLOCK or MINE"
#define RULE_TRIM      "trim leaves live blocks alone"
#define RULE_NUMBERS   "statistics fills in bytes that are live and held, inside size"
#define RULE_EXIT      "owns and free_block may be called until the process ends"
#define RULE_UNLOADING "an object that nobody has a reference to may be unloaded, and loaded again"
#define RULE_TIME      "owns takes a constant time, or SLOW says that it does not"
#define RULE_CONSTANT  "nothing in the structure changes"
#define RULE_READY     "ready answers 0 or 1"

/* ---- blocks ---- */

enum { BLOCKS = 2000 };

struct block {
    unsigned char *at;
    size_t size, alignment;
};
static struct block blocks[BLOCKS];

static unsigned char pattern(const struct block *block, size_t i)
{
    return (unsigned char)(block->size * 31 + i * 7 + 1);
}

static void fill(const struct block *block)
{
    for (size_t i = 0; i<block->size; i += block->size> 4096 ? 509 : 1)
        block->at[i] = pattern(block, i);
}

static void verify(const struct block *block, const char *rule, const char *when)
{
    for (size_t i = 0; i<block->size; i += block->size> 4096 ? 509 : 1)
        if (block->at[i] != pattern(block, i))
            hf_registry_refuse(rule, "a block of %zu bytes lost its contents %s", block->size,
                               when);
}

static size_t size_of(size_t i)
{
    static const size_t large[] = {5000, 40000, 70000, 300000, 2 << 20, 9 << 20, 40 << 20};
    return i % 100 == 99 ? large[i / 100 % 7] : 1 + i * 37 % 2000;
}

/* Allocates the block with that number; NULL refuses nothing, if it is large. */
static struct block *make(member_t *member, size_t i)
{
    struct block *block = &blocks[i];
    block->size = size_of(i);
    block->alignment = i % 10 == 3 ? (size_t)16 << i / 10 % 9 : 0;
    block->at = member->allocate(block->size, block->alignment);
    if (block->at == NULL) {
        if (block->size < 5000 && block->alignment == 0)
            hf_registry_refuse("allocate returns a block, or NULL and ENOMEM", "NULL for %zu bytes",
                               block->size);
        return NULL;
    }
    if (block->alignment != 0 && (uintptr_t)block->at % block->alignment != 0)
        hf_registry_refuse(RULE_ALIGNMENT, "%p at a multiple of %zu", (void *)block->at,
                           block->alignment);
    fill(block);
    return block;
}

static void make_all(member_t *member, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)make(member, i);
}

static void drop(member_t *member, struct block *block)
{
    if (block->at != NULL)
        member->free_block(block->at);
    block->at = NULL;
}

static void drop_all(member_t *member, size_t count)
{
    for (size_t i = 0; i < count; i++)
        drop(member, &blocks[i]);
}

static const char *name_of(int answer)
{
    static const char *const names[] = {"NOT_MINE", "BLOCK", "INSIDE", "NO_BLOCK", "MINE"};
    return answer >= 0 && answer <= ALLOCATOR_REGISTRY_MINE ? names[answer] : "an unknown answer";
}

/* What owns must answer for a live block. */
static void check_live(member_t *member, const struct block *block)
{
    const bool first = (member->flags & ALLOCATOR_REGISTRY_TELLS_FIRST) != 0;
    const bool denies = (member->flags & ALLOCATOR_REGISTRY_DENIES_BLOCKS) != 0;
    int answer = member->owns(block->at);
    if (answer == ALLOCATOR_REGISTRY_NOT_MINE && !denies)
        hf_registry_refuse(RULE_BLOCK, "NOT_MINE for a live block of %zu bytes", block->size);
    if (first ? answer != ALLOCATOR_REGISTRY_BLOCK && answer != ALLOCATOR_REGISTRY_NOT_MINE
              : answer == ALLOCATOR_REGISTRY_INSIDE || answer == ALLOCATOR_REGISTRY_NO_BLOCK)
        hf_registry_refuse(first ? RULE_FIRST : RULE_BLOCK,
                           "%s for the first byte of a live block of %zu bytes", name_of(answer),
                           block->size);
    const size_t inside[] = {1, block->size / 2, block->size - 1};
    for (size_t i = 0; i < 3; i++) {
        if (inside[i] == 0 || inside[i] >= block->size)
            continue;
        answer = member->owns(block->at + inside[i]);
        if (answer == ALLOCATOR_REGISTRY_NOT_MINE) {
            if (!denies && (member->flags & ALLOCATOR_REGISTRY_DENIES_INSIDE) == 0)
                hf_registry_refuse(RULE_INSIDE, "NOT_MINE for byte %zu of a live block of %zu",
                                   inside[i], block->size);
        } else if (answer == ALLOCATOR_REGISTRY_BLOCK || answer == ALLOCATOR_REGISTRY_NO_BLOCK ||
                   (first && answer != ALLOCATOR_REGISTRY_INSIDE)) {
            hf_registry_refuse(first ? RULE_FIRST : RULE_BLOCK,
                               "%s for byte %zu of a live block of"
                               " %zu",
                               name_of(answer), inside[i], block->size);
        }
    }
}

/* ---- checks ---- */

static void must_be_foreign(member_t *member, const void *address, const char *what)
{
    const int answer = member->owns(address);
    if (answer != ALLOCATOR_REGISTRY_NOT_MINE)
        hf_registry_refuse(RULE_FOREIGN, "%s for %s", name_of(answer), what);
}

static void check_foreign_now(member_t *member)
{
    static const char constant[] = "constant";
    static char variable;
    char local = 0;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), wide = (size_t)64 << 20;
    char *closed = mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *open = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *volatile small = malloc(100), *volatile large = malloc(1 << 20);
    static const uintptr_t odd[] = {0,
                                    1,
                                    4096,
                                    UINTPTR_MAX,
                                    UINTPTR_MAX - 4095,
                                    (uintptr_t)1 << 47,
                                    ((uintptr_t)1 << 47) - 1,
                                    (uintptr_t)1 << 56,
                                    (uintptr_t)1 << 63,
                                    (uintptr_t)0x0000400000000000,
                                    (uintptr_t)0x0000100000000000};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        must_be_foreign(member, (const void *)odd[i], "an address where nothing is mapped");
    must_be_foreign(member, constant, "constant data of a program");
    must_be_foreign(member, &variable, "a variable of a program");
    must_be_foreign(member, &local, "a stack");
    must_be_foreign(member, (const void *)(uintptr_t)&check_foreign_now, "code");
    must_be_foreign(member, member, "the structure");
    must_be_foreign(member, small, "a block of libc's");
    must_be_foreign(member, (char *)small + 8, "a byte in a block of libc's");
    must_be_foreign(member, large, "a large block of libc's");
    if (open != MAP_FAILED) {
        must_be_foreign(member, open, "a page of a program");
        must_be_foreign(member, open + 8, "a page of a program");
    }
    if (closed != MAP_FAILED) {
        for (size_t offset = 0; offset < wide; offset += 1 << 20)
            must_be_foreign(member, closed + offset + 16, "a page that nobody may read");
        munmap(closed, wide);
        must_be_foreign(member, closed + wide / 2, "a page that is no longer mapped");
    }
    free(small);
    free(large);
}

static void check_foreign(member_t *member)
{
    check_foreign_now(member);
    if (!hf_registry_can_allocate(member))
        return;
    make_all(member, BLOCKS / 2);
    check_foreign_now(member);
}

static void check_blocks(member_t *member)
{
    make_all(member, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL)
            check_live(member, &blocks[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL)
            verify(&blocks[i], RULE_BLOCK, "while others were allocated");
    drop_all(member, BLOCKS);
}

static void check_usable(member_t *member)
{
    make_all(member, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].at == NULL)
            continue;
        const size_t usable = member->usable_size(blocks[i].at);
        if (usable < blocks[i].size)
            hf_registry_refuse(RULE_USABLE, "%zu for a block of %zu bytes", usable, blocks[i].size);
        memset(blocks[i].at + blocks[i].size, 0xa5, usable - blocks[i].size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL)
            verify(&blocks[i], RULE_USABLE, "while others' usable bytes were written");
    drop_all(member, BLOCKS);
}

static void check_dead(member_t *member)
{
    static void *dead[BLOCKS];
    make_all(member, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++)
        dead[i] = blocks[i].at;
    drop_all(member, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        const int answer = dead[i] != NULL ? member->owns(dead[i]) : ALLOCATOR_REGISTRY_NO_BLOCK;
        if ((member->flags & ALLOCATOR_REGISTRY_TELLS_DEAD) != 0 &&
            (answer == ALLOCATOR_REGISTRY_BLOCK || answer == ALLOCATOR_REGISTRY_INSIDE))
            hf_registry_refuse(RULE_DEAD, "%s for a block of %zu bytes that was freed",
                               name_of(answer), size_of(i));
    }
}

static void check_resize(member_t *member)
{
    for (size_t i = 0; i < 400; i++) {
        static const size_t sizes[] = {1, 60, 5000, 100, 300000, 70000, 3 << 20, 24};
        struct block block = {.size = 1 + i * 13};
        block.at = member->allocate(block.size, 0);
        if (block.at == NULL)
            continue;
        fill(&block);
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            const size_t size = sizes[j] + i, kept = size < block.size ? size : block.size;
            unsigned char *moved = member->resize(block.at, size);
            if (moved == NULL)
                hf_registry_refuse(RULE_RESIZE, "NULL for %zu bytes", size);
            for (size_t k = 0; k<kept; k += block.size> 4096 ? 509 : 1)
                if (moved[k] != pattern(&block, k))
                    hf_registry_refuse(RULE_RESIZE, "byte %zu changed from %zu to %zu bytes", k,
                                       block.size, size);
            block.at = moved;
            block.size = size;
            fill(&block);
            check_live(member, &block);
        }
        member->free_block(block.at);
    }
}

static void errno_stays(const char *function)
{
    if (errno != 4711)
        hf_registry_refuse(RULE_ERRNO, "%s does", function);
}

static int visit_nothing(const void *start, size_t size, int what, void *context)
{
    (void)start, (void)size, (void)what, (void)context;
    return 0;
}

static void check_errno(member_t *member)
{
    struct allocator_registry_statistics statistics = {sizeof statistics, 0, 0};
    make_all(member, BLOCKS / 2);
    errno = 4711;
    for (size_t i = 0; i < BLOCKS / 2; i++) {
        if (blocks[i].at == NULL)
            continue;
        (void)member->owns(blocks[i].at);
        (void)member->owns(&statistics);
        errno_stays("owns");
        (void)member->usable_size(blocks[i].at);
        errno_stays("usable_size");
        member->free_block(blocks[i].at);
        errno_stays("free_block");
    }
    if (member->ready != NULL)
        (void)member->ready();
    errno_stays("ready");
    if (member->trim != NULL)
        member->trim();
    errno_stays("trim");
    if (member->statistics != NULL)
        (void)member->statistics(&statistics);
    errno_stays("statistics");
    if (member->walk != NULL)
        (void)member->walk(visit_nothing, NULL);
    errno_stays("walk");
}

static void *free_them(void *context)
{
    member_t *member = context;
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL) {
            check_live(member, &blocks[i]);
            verify(&blocks[i], RULE_THREADS, "on the way to another thread");
            drop(member, &blocks[i]);
        }
    return NULL;
}

static void *make_them(void *context)
{
    make_all(context, BLOCKS);
    return NULL;
}

static void *churn(void *context)
{
    member_t *member = context;
    enum { OWN = 50 };
    struct block own[OWN] = {{NULL, 0, 0}};
    for (size_t round = 0; round < 20000; round++) {
        struct block *block = &own[round % OWN];
        if (block->at != NULL) {
            check_live(member, block);
            verify(block, RULE_THREADS, "while other threads allocated");
            member->free_block(block->at);
        }
        *block = (struct block){.size = 1 + round * 61 % 3000};
        block->at = member->allocate(block->size, 0);
        if (block->at != NULL)
            fill(block);
    }
    for (size_t i = 0; i < OWN; i++)
        if (own[i].at != NULL)
            member->free_block(own[i].at);
    return NULL;
}

static void in_thread(void *(*run)(void *), member_t *member)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, (void *)(uintptr_t)member) == 0)
        pthread_join(thread, NULL);
}

static void check_threads(member_t *member)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    make_all(member, BLOCKS);
    in_thread(free_them, member); /* a thread whose first call that is */
    in_thread(make_them, member); /* and blocks of a thread that has ended */
    (void)free_them((void *)(uintptr_t)member);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)member) != 0)
            return;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static volatile sig_atomic_t stop;
static struct {
    member_t *member;
    const struct block *block;
} asked;

static void ask(int signal)
{
    (void)signal;
    const int saved_errno = errno;
    (void)asked.member->owns(asked.block->at);
    (void)asked.member->owns(&asked);
    errno = saved_errno;
}

static void check_signals(member_t *member)
{
    struct block held = {.size = 100}, moving;
    held.at = member->allocate(held.size, 0);
    if (held.at == NULL)
        return;
    asked.member = member;
    asked.block = &held;
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    struct timespec begin, now;
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (size_t i = 0; i < 2000; i++) {
            moving.size = size_of(i);
            moving.at = member->allocate(moving.size, 0);
            if (moving.at != NULL)
                member->free_block(moving.at);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < 2);
    setitimer(ITIMER_VIRTUAL, &never, NULL);
}

static void *churn_until_stopped(void *context)
{
    while (!stop)
        (void)churn(context);
    return NULL;
}

static void check_fork(member_t *member)
{
    pthread_t threads[2];
    struct block held = {.size = 100};
    held.at = member->allocate(held.size, 0);
    if (held.at == NULL)
        return;
    fill(&held);
    size_t started = 0;
    while (started < 2 && pthread_create(&threads[started], NULL, churn_until_stopped,
                                         (void *)(uintptr_t)member) == 0)
        started++;
    for (int i = 0; i < 40; i++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            alarm(5);
            check_live(member, &held);
            must_be_foreign(member, &status, "a stack, in a forked child");
            verify(&held, RULE_FORK, "in a forked child");
            _exit(0);
        }
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
            hf_registry_refuse(
                RULE_FORK, "the child %s",
                WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "did not come back" : "died");
    }
    stop = 1;
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

struct walked {
    member_t *member;
    size_t seen;
};

static int visit(const void *start, size_t size, int what, void *context)
{
    struct walked *walked = context;
    const int answer = walked->member->owns(start);
    if (size == 0 || what == ALLOCATOR_REGISTRY_NOT_MINE ||
        (answer == ALLOCATOR_REGISTRY_NOT_MINE &&
         (walked->member->flags &
          (ALLOCATOR_REGISTRY_DENIES_INSIDE | ALLOCATOR_REGISTRY_DENIES_BLOCKS)) == 0))
        hf_registry_refuse(RULE_WALK, "%zu bytes are visited as %s, and owns says %s", size,
                           name_of(what), name_of(answer));
    for (size_t i = 0; i < BLOCKS / 2; i++)
        if (blocks[i].at != NULL && (uintptr_t)blocks[i].at - (uintptr_t)start < size) {
            if (what == ALLOCATOR_REGISTRY_NO_BLOCK)
                hf_registry_refuse(RULE_WALK, "a live block is visited as NO_BLOCK");
            walked->seen++;
        }
    return 0;
}

static void check_walk(member_t *member)
{
    struct walked walked = {member, 0};
    size_t live = 0;
    make_all(member, BLOCKS / 2);
    for (size_t i = 0; i < BLOCKS / 2; i++)
        live += blocks[i].at != NULL;
    if (member->walk(visit, &walked) != 0)
        hf_registry_refuse(RULE_WALK, "its result is not what visit returned");
    if (walked.seen < live)
        hf_registry_refuse(RULE_WALK, "%zu of %zu live blocks were visited", walked.seen, live);
}

static void check_trim(member_t *member)
{
    make_all(member, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i += 2)
        drop(member, &blocks[i]);
    member->trim();
    for (size_t i = 1; i < BLOCKS; i += 2)
        if (blocks[i].at != NULL) {
            verify(&blocks[i], RULE_TRIM, "in trim");
            check_live(member, &blocks[i]);
        }
    drop_all(member, BLOCKS);
    member->trim();
}

static void check_statistics(member_t *member)
{
    struct {
        struct allocator_registry_statistics statistics;
        uint64_t behind;
    } out = {{sizeof out.statistics, 0, 0}, 4711};
    make_all(member, BLOCKS);
    uint64_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        live += blocks[i].at != NULL ? blocks[i].size : 0;
    const int result = member->statistics(&out.statistics);
    if (result != 0 && result != -1)
        hf_registry_refuse(RULE_NUMBERS, "the result is %d", result);
    if (out.behind != 4711 || out.statistics.size != sizeof out.statistics)
        hf_registry_refuse(RULE_NUMBERS, "what lies behind them, or size, is changed");
    if (result == 0 && (out.statistics.live < live || out.statistics.held < live))
        hf_registry_refuse(RULE_NUMBERS, "%ju live and %ju held, of %ju in use",
                           (uintmax_t)out.statistics.live, (uintmax_t)out.statistics.held,
                           (uintmax_t)live);
    for (size_t size = sizeof(size_t); size < sizeof out.statistics; size += sizeof(uint64_t)) {
        const bool has_live = size > offsetof(struct allocator_registry_statistics, live);
        out.statistics = (struct allocator_registry_statistics){size, 4711, 4711};
        if (member->statistics(&out.statistics) != result)
            hf_registry_refuse(RULE_NUMBERS, "a caller whose structure is shorter gets nothing");
        if ((!has_live && out.statistics.live != 4711) || out.statistics.held != 4711)
            hf_registry_refuse(RULE_NUMBERS, "members outside of the caller's size are filled in");
        if (has_live && result == 0 && out.statistics.live < live)
            hf_registry_refuse(RULE_NUMBERS, "a shorter structure has %ju live, of %ju in use",
                               (uintmax_t)out.statistics.live, (uintmax_t)live);
    }
}

static member_t *at_exit;

static void free_at_exit(void)
{
    for (size_t i = 0; i < BLOCKS / 2; i++)
        if (blocks[i].at != NULL) {
            check_live(at_exit, &blocks[i]);
            at_exit->free_block(blocks[i].at);
        }
}

/* The process of a check that returns ends by exit(3). */
static void check_exit(member_t *member)
{
    at_exit = member;
    make_all(member, BLOCKS / 2);
    if (atexit(free_at_exit) != 0)
        abort();
}

/* A reader's reference keeps the object's functions; without one it may go, and come back. */
static void check_unloading(member_t *member)
{
    Dl_info info;
    if (dladdr(member, &info) == 0 || info.dli_fname == NULL)
        return;
    char file[PATH_MAX];
    (void)snprintf(file, sizeof file, "%s", info.dli_fname);
    void *reference = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (reference == NULL) /* the program itself */
        return;
    if (hf_registry_can_allocate(member))
        make_all(member, BLOCKS / 2);
    dlclose(reference); /* as whoever loaded it does; the one of this command is left */
    for (size_t i = 0; i < BLOCKS / 2; i++)
        if (blocks[i].at != NULL)
            check_live(member, &blocks[i]);
    drop_all(member, BLOCKS / 2);
    dlclose(reference);
    if (dlopen(file, RTLD_LAZY | RTLD_NOLOAD) == NULL && dlopen(file, RTLD_NOW) == NULL)
        hf_registry_refuse(RULE_UNLOADING, "%s", dlerror());
}

static void check_ready(member_t *member)
{
    const int answer = member->ready();
    if (answer != 0 && answer != 1)
        hf_registry_refuse(RULE_READY, "%d", answer);
}

static void check_constant(member_t *member)
{
    struct allocator_registry before;
    memcpy(&before, member, sizeof before);
    if (hf_registry_can_allocate(member)) {
        make_all(member, BLOCKS / 2);
        drop_all(member, BLOCKS / 2);
    }
    if (memcmp(&before, member, sizeof before) != 0)
        hf_registry_refuse(RULE_CONSTANT, "it did while blocks were allocated and freed");
}

/* ---- time ---- */

static void check_time(member_t *member)
{
    static const size_t threads[] = {1, 2, 4, 8, 16};
    struct block first = {.size = 100};
    const bool allocates = hf_registry_can_allocate(member);
    first.at = allocates ? member->allocate(first.size, 0) : NULL;
    const void *const mine[4] = {first.at, first.at, first.at, first.at};
    const void *const foreign[4] = {&first, member, mine, threads};
    double own[5], others[5];
    const double few = hf_registry_time(member, mine, 1),
                 few_foreign = hf_registry_time(member, foreign, 1);
    if (allocates)
        make_all(member, BLOCKS);
    for (size_t i = 0; i < 5; i++) {
        own[i] = hf_registry_time(member, mine, threads[i]);
        others[i] = hf_registry_time(member, foreign, threads[i]);
    }
    hf_registry_tell("owns takes %.1f, %.1f, %.1f, %.1f, %.1f ns for %s, and %.1f, %.1f, %.1f, "
                     "%.1f, %.1f ns for a foreign pointer, with 1, 2, 4, 8, 16 threads",
                     own[0], own[1], own[2], own[3], own[4],
                     allocates ? "a block" : "a null pointer", others[0], others[1], others[2],
                     others[3], others[4]);
    if ((member->flags & ALLOCATOR_REGISTRY_SLOW) != 0)
        return;
    if ((own[0] > 4 * few && own[0] > 200) || (others[0] > 4 * few_foreign && others[0] > 200))
        hf_registry_refuse(RULE_TIME, "%.0f ns with one block, %.0f ns with %d",
                           own[0] > 4 * few ? few : few_foreign,
                           own[0] > 4 * few ? own[0] : others[0], BLOCKS);
    if (own[4] > 10 * own[0] && own[4] > 300)
        hf_registry_refuse(RULE_LOCK, "%.0f ns with one thread, %.0f ns with 16", own[0], own[4]);
}

/* ---- the table ---- */

#define NEEDS(function) offsetof(struct allocator_registry, function)

const struct hf_registry_check hf_registry_checks[] = {
    {"ready", RULE_READY, check_ready, NEEDS(ready)},
    {"foreign addresses", RULE_READS, check_foreign, NEEDS(owns)},
    {"blocks", RULE_BLOCK, check_blocks, NEEDS(allocate)},
    {"usable size", RULE_USABLE, check_usable, NEEDS(allocate)},
    {"freed blocks", RULE_READS, check_dead, NEEDS(allocate)},
    {"resizing", RULE_RESIZE, check_resize, NEEDS(resize)},
    {"errno", RULE_ERRNO, check_errno, NEEDS(allocate)},
    {"threads", RULE_THREADS, check_threads, NEEDS(allocate)},
    {"signals", RULE_LOCK, check_signals, NEEDS(allocate)},
    {"fork", RULE_FORK, check_fork, NEEDS(allocate)},
    {"walk", RULE_WALK, check_walk, NEEDS(walk)},
    {"trim", RULE_TRIM, check_trim, NEEDS(trim)},
    {"statistics", RULE_NUMBERS, check_statistics, NEEDS(statistics)},
    {"exit", RULE_EXIT, check_exit, NEEDS(allocate)},
    {"unloading", RULE_UNLOADING, check_unloading, NEEDS(owns)},
    {"constant", RULE_CONSTANT, check_constant, NEEDS(owns)},
    {"time", RULE_TIME, check_time, NEEDS(owns)},
};
const unsigned hf_registry_checks_count = sizeof hf_registry_checks / sizeof hf_registry_checks[0];

bool hf_registry_can_allocate(const struct allocator_registry *member)
{
    return member->allocate != NULL && (member->ready == NULL || member->ready() != 0);
}

bool hf_registry_can_check(const struct hf_registry_check *check,
                           const struct allocator_registry *member)
{
    void (*function)(void);
    memcpy(&function, (const char *)member + check->needs, sizeof function);
    return function != NULL && (check->needs <= NEEDS(owns) || check->needs == NEEDS(ready) ||
                                hf_registry_can_allocate(member));
}
