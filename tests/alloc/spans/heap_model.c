/*
 * Random calls of the malloc family on many threads, against a plain model: which blocks there are,
 * how large they are, and what is in them. The model lies in memory of the program's own, which no
 * heap touches.
 *
 * usage: heap_model HOW SECONDS [SEED]
 *     HOW      a library, which is loaded late and whose hf_… functions are called; or `malloc`,
 * for the functions of that name, which a preloaded library may define SECONDS  how long: one round
 * after the other; 0: one round SEED     the first round's; each round prints its own before it
 * fails, and `0 SEED` repeats it
 *
 * In every second round threads take turns, in an order that the seed decides: such a round does
 * the same each time. In the others they run freely.
 *
 * A block holds a pattern of its own in all of its usable bytes, which is looked at whenever
 * something happens to the block: so blocks that overlap are found, as are those that somebody else
 * writes to. Records of blocks change hands in `places`: other threads than the one that allocated
 * free and resize them, also after that one has ended. Now and then a thread frees all that it has,
 * fills its table with blocks of one size, or forks, and the child frees all that the thread had.
 * While no thread runs, hf_heap_walk() must find each block once.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <homefree/owner.h>

/* ---- the heap's functions ---- */

static struct {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    int (*posix_memalign)(void **out, size_t alignment, size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(void *ptr);
    /* NULL in a library that has none: */
    void (*free_sized)(void *ptr, size_t size);
    int (*owner_of)(const void *ptr, struct hf_owner *out);
    int (*walk)(const void *heap, int (*visit)(void *context, void *ptr, size_t size),
                void *context);
} heap;

static void *named(void *library, const char *prefix, const char *name)
{
    char whole[64];
    (void)snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return dlsym(library, whole);
}

static bool take_functions(const char *how)
{
    const bool libc = strcmp(how, "malloc") == 0;
    void *library = libc ? RTLD_DEFAULT : dlopen(how, RTLD_NOW | RTLD_LOCAL);
    if (!libc && library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    const char *prefix = libc ? "" : "hf_";
    /* What a preloaded homefree has besides. */
    const char *owner_of = libc ? "hf_owner_of" : "owner_of";
    const char *walk = libc ? "hf_heap_walk" : "heap_walk";
    const struct {
        const char *name;
        void *function; /* a pointer to a pointer to a function */
        bool must;
    } functions[] = {
        {"malloc", &heap.malloc, true},
        {"calloc", &heap.calloc, true},
        {"realloc", &heap.realloc, true},
        {"aligned_alloc", &heap.aligned_alloc, true},
        {"posix_memalign", &heap.posix_memalign, true},
        {"free", &heap.free, true},
        {libc ? "malloc_usable_size" : "usable_size", &heap.usable_size, true},
        {"free_sized", &heap.free_sized, false},
        {owner_of, &heap.owner_of, false},
        {walk, &heap.walk, false},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = named(library, prefix, functions[i].name);
        if (found == NULL && functions[i].must)
            return false;
        memcpy(functions[i].function, &found, sizeof found);
    }
    return true;
}

/* ---- the model ---- */

enum {
    THREADS = 8,
    TABLE = 768,   /* records that a thread has */
    PLACES = 1024, /* records that belong to whoever takes them */
    LARGE = 32 << 10,
    EDGE = 4 << 10, /* bytes at both ends of a large block that are all looked at */
    STEP = 1 << 10, /* between others that are */
};

struct block {
    unsigned char *at; /* NULL: there is no block */
    size_t asked, usable;
    uint64_t pattern;
    bool seen; /* by a walk */
};

struct worker {
    struct block *table[TABLE];
    uint64_t random;
    uint64_t calls; /* for messages */
    uint64_t until; /* ends when it has made so many */
    const char *doing;
    struct block *with;
    pthread_t thread;
    unsigned number;
    bool running;
};

static struct block records[THREADS * TABLE + PLACES];
static struct block *places[PLACES]; /* atomic */
static struct worker workers[THREADS];
static uint64_t seed, all_calls, all_forks, all_threads, all_walks;
static int64_t budget; /* atomic: bytes that may still be taken */
static bool in_turns;

static __thread struct worker *self;

static size_t text_of(char *text, size_t size, const struct worker *worker)
{
    size_t length =
        (size_t)snprintf(text, size, "heap_model: seed %llu, %s, thread %u, call %llu, %s",
                         (unsigned long long)seed, in_turns ? "in turns" : "freely", worker->number,
                         (unsigned long long)worker->calls, worker->doing);
    if (worker->with != NULL)
        length +=
            (size_t)snprintf(text + length, size - length, " (%p, %zu bytes, usable %zu)",
                             (void *)worker->with->at, worker->with->asked, worker->with->usable);
    return length;
}

static void say(char *text, size_t length)
{
    text[length++] = '\n';
    if (write(STDERR_FILENO, text, length) < 0)
        _exit(3);
}

/* Leaves nothing to the heap: that may be the broken one. */
static __attribute__((noreturn, format(printf, 2, 3))) void wrong(const struct worker *worker,
                                                                  const char *format, ...)
{
    char text[600];
    va_list args;
    size_t length = text_of(text, sizeof text - 200, worker);
    va_start(args, format);
    length += (size_t)snprintf(text + length, 3, ": ");
    length += (size_t)vsnprintf(text + length, 190, format, args);
    va_end(args);
    say(text, length);
    (void)signal(SIGABRT, SIG_DFL);
    abort();
}

/* The heap has found an error, or there is one in it. */
static void died(int number)
{
    char text[400];
    if (self != NULL)
        say(text, text_of(text, sizeof text - 1, self));
    (void)raise(number); /* SA_RESETHAND: ends the process */
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 31) * UINT64_C(0x7fb5d329728ea185);
    value = (value ^ value >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return value ^ value >> 33;
}

static uint64_t next_random(uint64_t *state)
{
    return mixed(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t below(struct worker *worker, uint64_t limit)
{
    return next_random(&worker->random) % limit;
}

/* ---- contents ---- */

/* The next offset to look at: whole words in small blocks and at the edges of large ones. */
static size_t next_offset(size_t offset, size_t size)
{
    offset += sizeof(uint64_t);
    if (size > LARGE && offset >= EDGE && offset < size - EDGE) {
        const size_t far = (offset + STEP - 1) & -(size_t)STEP;
        const size_t edge = (size - EDGE) & -sizeof(uint64_t);
        offset = far < edge ? far : edge;
    }
    return offset;
}

static void fill(struct worker *worker, struct block *block)
{
    block->pattern = next_random(&worker->random);
    for (size_t at = 0; at < block->usable; at = next_offset(at, block->usable)) {
        const uint64_t word = block->pattern + at;
        const size_t left = block->usable - at;
        memcpy(block->at + at, &word, left < sizeof word ? left : sizeof word);
    }
}

/* The first `size` bytes of what fill() left in a block that had `usable` bytes. */
static void check(struct worker *worker, const unsigned char *bytes, const struct block *block,
                  size_t size)
{
    for (size_t at = 0; at < size; at = next_offset(at, block->usable)) {
        const uint64_t word = block->pattern + at;
        const size_t left = size - at;
        if (memcmp(bytes + at, &word, left < sizeof word ? left : sizeof word) != 0) {
            uint64_t is = 0;
            memcpy(&is, bytes + at, left < sizeof word ? left : sizeof word);
            wrong(worker, "offset %zu holds %016llx instead of %016llx", at, (unsigned long long)is,
                  (unsigned long long)word);
        }
    }
}

static void check_zero(struct worker *worker, const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size; at = next_offset(at, size))
        for (size_t i = at; i < size && i < at + sizeof(uint64_t); i++)
            if (bytes[i] != 0)
                wrong(worker, "offset %zu is not zero", i);
}

/* ---- calls ---- */

static size_t some_size(struct worker *worker)
{
    const uint64_t kind = below(worker, 1000), bits = next_random(&worker->random) >> 8;
    const int64_t left = __atomic_load_n(&budget, __ATOMIC_RELAXED);
    if (kind < 20)
        return 0;
    if (kind < 620 || left < (int64_t)16 << 20)
        return bits % ((uint64_t)1 << (1 + bits % 10)) + 1;
    if (kind < 850)
        return bits % ((uint64_t)1 << (8 + bits % 8)) + 1;
    if (kind < 950) /* about the border of a class */
        return ((uint64_t)(8 + bits % 9) << (1 + (bits >> 8) % 13)) + (bits >> 16) % 3 - 1;
    if (kind < 998 || left < (int64_t)256 << 20)
        return bits % ((uint64_t)1 << (15 + bits % 6)) + 1;
    return bits % ((uint64_t)32 << 20) + 1;
}

static size_t some_alignment(struct worker *worker)
{
    const uint64_t bits = next_random(&worker->random);
    return (size_t)1 << (bits % 64 != 0 ? 3 + (bits >> 8) % 10 : 3 + (bits >> 8) % 19);
}

static void count(int64_t bytes)
{
    (void)__atomic_sub_fetch(&budget, bytes, __ATOMIC_RELAXED);
}

static void taken(struct worker *worker, struct block *block, void *at, size_t asked,
                  size_t alignment)
{
    block->at = at;
    block->asked = asked;
    block->usable = 0;
    if (at == NULL)
        wrong(worker, "no memory for %zu bytes", asked);
    if ((uintptr_t)at % (alignment > 16 ? alignment : asked < 16 ? 8 : 16) != 0)
        wrong(worker, "not aligned to %zu", alignment);
    block->usable = heap.usable_size(at);
    if (block->usable < asked)
        wrong(worker, "less is usable than was asked for");
    count((int64_t)block->usable);
    fill(worker, block);
}

static void take(struct worker *worker, struct block *block, size_t size)
{
    const uint64_t way = below(worker, 100);
    const size_t alignment = some_alignment(worker);
    void *at = NULL;
    worker->with = NULL;
    if (way < 60) {
        worker->doing = "malloc";
        taken(worker, block, heap.malloc(size), size, 16);
    } else if (way < 75) {
        const size_t count = size == 0 ? 0 : 1 + below(worker, size < 64 ? size : 64);
        worker->doing = "calloc";
        size = count == 0 ? 0 : size / count * count;
        at = heap.calloc(count, count == 0 ? 8 : size / count);
        if (at != NULL)
            check_zero(worker, at, size);
        taken(worker, block, at, size, 16);
    } else if (way < 80) {
        worker->doing = "realloc of nothing";
        taken(worker, block, heap.realloc(NULL, size), size, 16);
    } else if (way < 90) {
        worker->doing = "aligned_alloc";
        taken(worker, block, heap.aligned_alloc(alignment, size), size, alignment);
    } else {
        worker->doing = "posix_memalign";
        if (heap.posix_memalign(&at, alignment, size) != 0)
            at = NULL;
        taken(worker, block, at, size, alignment);
    }
}

static void check_block(struct worker *worker, struct block *block)
{
    worker->with = block;
    if (heap.usable_size(block->at) != block->usable)
        wrong(worker, "usable bytes have changed");
    check(worker, block->at, block, block->usable);
}

/* A block that was taken while the process forked may be. */
static bool is_libcs(const unsigned char *address)
{
    struct hf_owner owner = {.size = sizeof owner};
    return heap.owner_of != NULL && heap.owner_of(address, &owner) == 0 &&
           owner.kind == HF_OWNER_LIBC;
}

static void check_owner(struct worker *worker, struct block *block)
{
    struct hf_owner owner = {.size = sizeof owner};
    if (heap.owner_of == NULL || block->usable == 0)
        return;
    worker->doing = "hf_owner_of";
    worker->with = block;
    const unsigned char *address = block->at + below(worker, block->usable);
    if (is_libcs(address))
        return;
    const int error = heap.owner_of(address, &owner);
    if (error != 0 || owner.kind != HF_OWNER_HEAP || owner.block != block->at ||
        owner.block_size != block->usable)
        wrong(worker, "address %p: kind %d, block %p, %zu bytes", (const void *)address,
              (int)owner.kind, owner.block, owner.block_size);
}

static void give(struct worker *worker, struct block *block)
{
    worker->doing = "free";
    check_block(worker, block);
    if (heap.free_sized != NULL && block->asked != 0 && below(worker, 4) == 0)
        heap.free_sized(block->at, block->asked);
    else
        heap.free(block->at);
    count(-(int64_t)block->usable);
    block->at = NULL;
}

static void resize(struct worker *worker, struct block *block)
{
    const struct block old = *block;
    /* To any size, or by little, as growing buffers are. */
    size_t size = below(worker, 3) != 0 ? some_size(worker) : old.asked + below(worker, 64);
    if (size == 0) /* would free */
        size = 1;
    worker->doing = "realloc";
    check_block(worker, block);
    unsigned char *at = heap.realloc(old.at, size);
    if (at == NULL)
        wrong(worker, "no memory for %zu bytes", size);
    block->at = at;
    check(worker, at, &old, old.asked < size ? old.asked : size);
    count(-(int64_t)old.usable);
    taken(worker, block, at, size, 16);
}

static void refuse(struct worker *worker)
{
    static volatile size_t much = SIZE_MAX / 2 + 1;
    worker->doing = "a call that must fail";
    worker->with = NULL;
    errno = 0;
    if (heap.malloc(much) != NULL || errno != ENOMEM)
        wrong(worker, "malloc, errno %d", errno);
    errno = 0;
    if (heap.calloc(much, 4) != NULL || errno != ENOMEM)
        wrong(worker, "calloc, errno %d", errno);
    heap.free(NULL);
}

/* The child has this thread alone, and all that the thread had. */
static void check_in_child(struct worker *worker)
{
    worker->doing = "in a forked child";
    for (unsigned i = 0; i < TABLE; i++)
        if (worker->table[i]->at != NULL)
            give(worker, worker->table[i]);
    for (unsigned i = 0; i < TABLE; i++)
        take(worker, worker->table[i], some_size(worker));
    for (unsigned i = 0; i < TABLE; i++)
        give(worker, worker->table[i]);
    _exit(0);
}

static void fork_once(struct worker *worker)
{
    int status = -1;
    worker->doing = "fork";
    worker->with = NULL;
    const pid_t child = fork();
    if (child == 0)
        check_in_child(worker);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        wrong(worker, "the child's status is %x", (unsigned)status);
    (void)__atomic_add_fetch(&all_forks, 1, __ATOMIC_RELAXED);
}

static void step(struct worker *worker)
{
    struct block **entry = &worker->table[below(worker, TABLE)];
    struct block *block = *entry;
    const uint64_t what = below(worker, 10000);
    worker->calls++;
    if (what < 3) {
        fork_once(worker);
    } else if (what < 15) {
        refuse(worker);
    } else if (what < 25) { /* spans that become wholly free */
        for (unsigned i = 0; i < TABLE; i++)
            if (worker->table[i]->at != NULL)
                give(worker, worker->table[i]);
    } else if (what < 35) { /* and those that one class fills */
        const size_t size = below(worker, 2048);
        for (unsigned i = 0; i < TABLE; i++)
            if (worker->table[i]->at == NULL)
                take(worker, worker->table[i], size);
    } else if (what < 3000) {
        *entry = __atomic_exchange_n(&places[below(worker, PLACES)], block, __ATOMIC_ACQ_REL);
    } else if (block->at == NULL) {
        take(worker, block, some_size(worker));
    } else if (what < 7000) {
        give(worker, block);
    } else if (what < 9000) {
        resize(worker, block);
    } else if (what < 9500) {
        worker->doing = "usable_size";
        check_block(worker, block);
    } else {
        check_owner(worker, block);
    }
}

/* ---- the walk, while no thread does anything ---- */

enum { BUCKETS = 1 << 14 };
static struct block *by_address[BUCKETS];

static struct block **bucket_of(const void *at)
{
    size_t i = mixed((uintptr_t)at) % BUCKETS;
    while (by_address[i] != NULL && by_address[i]->at != at)
        i = (i + 1) % BUCKETS;
    return &by_address[i];
}

/* Other blocks are libhomefree's own, or, if it serves all, anybody's. */
static int visit(void *context, void *ptr, size_t size)
{
    struct worker *worker = context;
    struct block *block = *bucket_of(ptr);
    if (block == NULL)
        return 0;
    worker->with = block;
    if (block->seen)
        wrong(worker, "twice");
    if (size != block->usable)
        wrong(worker, "with %zu bytes", size);
    block->seen = true;
    return 0;
}

static void walk(struct worker *worker)
{
    if (heap.walk == NULL)
        return;
    memset(by_address, 0, sizeof by_address);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        records[i].seen = false;
        if (records[i].at != NULL)
            *bucket_of(records[i].at) = &records[i];
    }
    worker->doing = "hf_heap_walk";
    const int result = heap.walk(NULL, visit, worker);
    worker->with = NULL;
    if (result == -ENOTSUP)
        return;
    if (result != 0)
        wrong(worker, "returned %d", result);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        worker->with = &records[i];
        if (records[i].at != NULL && !records[i].seen && !is_libcs(records[i].at))
            wrong(worker, "not found");
    }
    all_walks++;
}

/* ---- threads ---- */

enum { NOBODYS = THREADS, ENDED = THREADS + 1 };
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed[THREADS + 1];
    unsigned whose; /* a thread's number; NOBODYS: the main thread's; ENDED and more: the same, and
                       the thread with that number less ENDED ends */
} turn = {PTHREAD_MUTEX_INITIALIZER, {[0 ... NOBODYS] = PTHREAD_COND_INITIALIZER}, NOBODYS};

static void turn_to(unsigned whose)
{
    pthread_mutex_lock(&turn.lock);
    turn.whose = whose;
    pthread_cond_signal(&turn.changed[whose < NOBODYS ? whose : NOBODYS]);
    pthread_mutex_unlock(&turn.lock);
}

static unsigned turn_await(unsigned from, unsigned until)
{
    pthread_mutex_lock(&turn.lock);
    while (turn.whose < from || turn.whose > until)
        pthread_cond_wait(&turn.changed[from], &turn.lock);
    const unsigned whose = turn.whose;
    pthread_mutex_unlock(&turn.lock);
    return whose;
}

static void *work(void *argument)
{
    struct worker *worker = self = argument;
    while (worker->calls < worker->until) {
        if (in_turns)
            (void)turn_await(worker->number, worker->number);
        for (uint64_t some = 1 + (in_turns ? below(worker, 40) : 0); some != 0; some--)
            step(worker);
        if (in_turns)
            turn_to(worker->calls < worker->until ? NOBODYS : ENDED + worker->number);
    }
    return NULL;
}

static void start(struct worker *worker, uint64_t *random)
{
    worker->until = worker->calls + 1 + next_random(random) % 2000;
    worker->running = true;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        wrong(worker, "no thread");
    all_threads++;
}

static void end(struct worker *worker)
{
    (void)pthread_join(worker->thread, NULL);
    worker->running = false;
}

/* Threads that end are followed by others, which take over their tables, `lives` times. */
static void run_freely(unsigned threads, unsigned lives, uint64_t *random)
{
    for (unsigned i = 0; i < threads; i++)
        start(&workers[i], random);
    for (; lives != 0; lives--)
        for (unsigned i = 0; i < threads; i++) {
            end(&workers[i]);
            if (lives != 1)
                start(&workers[i], random);
        }
}

static void run_in_turns(unsigned threads, unsigned lives, uint64_t *random)
{
    unsigned running = threads, left = threads * (lives - 1);
    for (unsigned i = 0; i < threads; i++)
        start(&workers[i], random);
    while (running != 0) {
        unsigned whose = (unsigned)(next_random(random) % threads);
        while (!workers[whose].running)
            whose = (whose + 1) % threads;
        turn_to(whose);
        const bool has_ended = turn_await(NOBODYS, ENDED + THREADS) != NOBODYS;
        if (next_random(random) % 256 == 0)
            walk(&workers[whose]);
        if (!has_ended)
            continue;
        end(&workers[whose]);
        if (left != 0) {
            left--;
            start(&workers[whose], random);
        } else {
            running--;
        }
    }
}

/* What is left is freed by this thread. */
static void free_all(void)
{
    struct worker *worker = self = &workers[0];
    worker->doing = "the end of a round";
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (records[i].at != NULL)
            give(worker, &records[i]);
}

static void one_round(void)
{
    uint64_t random = seed;
    struct block *next = records;
    budget = (int64_t)512 << 20;
    in_turns = seed % 2 != 0;
    const unsigned threads = 2 + (unsigned)(next_random(&random) % (THREADS - 1));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .random = next_random(&random), .doing = "start"};
        for (unsigned j = 0; j < TABLE; j++)
            workers[i].table[j] = next++;
    }
    for (unsigned i = 0; i < PLACES; i++)
        places[i] = next++;
    (in_turns ? run_in_turns : run_freely)(threads, 1 + (unsigned)(next_random(&random) % 6),
                                           &random);
    for (unsigned i = 0; i < THREADS; i++)
        all_calls += workers[i].calls;
    walk(&workers[0]);
    free_all();
}

int main(int count, char **arguments)
{
    if (count < 3 || count > 4) {
        (void)fprintf(stderr, "usage: heap_model LIBRARY|malloc SECONDS [SEED]\n");
        return 2;
    }
    if (!take_functions(arguments[1])) {
        (void)fprintf(stderr, "%s has no functions of a heap\n", arguments[1]);
        return 2;
    }
    const struct sigaction action = {.sa_handler = died, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGABRT, &action, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const double until =
        (double)now.tv_sec + (double)now.tv_nsec / 1e9 + strtod(arguments[2], NULL);
    seed = count == 4 ? strtoull(arguments[3], NULL, 10)
                      : mixed((uint64_t)now.tv_nsec ^ (uint64_t)getpid()) % 1000000000;
    const unsigned long long first = seed;
    unsigned rounds = 0;
    do {
        one_round();
        seed++;
        rounds++;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < until);
    (void)printf(
        "seed %llu: %u rounds, %llu calls, %llu threads, %llu forked children, %llu walks\n", first,
        rounds, (unsigned long long)all_calls, (unsigned long long)all_threads,
        (unsigned long long)all_forks, (unsigned long long)all_walks);
    return 0;
}
