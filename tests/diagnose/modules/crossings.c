/*
 * A program and the modules that it loads, which exchange blocks in the way that the first argument
 * names. $MODULES are the modules' paths, separated by colons.
 */
#include "../../support/cases.h"
#include "../../support/require.h"
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* The compiler must not know what a pointer refers to. */
static void *hidden(void *ptr)
{
    __asm__ volatile("" : "+r"(ptr));
    return ptr;
}

/* ---- modules ---- */

static void *load(int number)
{
    static char paths[4096];
    snprintf(paths, sizeof paths, "%s", getenv("MODULES"));
    char *path = strtok(paths, ":");
    while (number-- > 0)
        path = strtok(NULL, ":");
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        puts(dlerror());
    REQUIRE(module != NULL);
    return module;
}

static void *function(void *module, const char *name)
{
    void *found = dlsym(module, name);
    REQUIRE(found != NULL);
    return found;
}

static void *take(size_t size)
{
    __typeof__(&module_take) taker;
    *(void **)&taker = function(load(0), "module_take");
    return taker(size);
}

static void give(void *ptr)
{
    __typeof__(&module_give) giver;
    *(void **)&giver = function(load(0), "module_give");
    giver(hidden(ptr));
}

/* ---- a module with an allocator of its own ---- */

static void freed_here(void)
{
    free(take(100));
}

static void freed_by_homefree(void)
{
    hf_free(take(100));
}

/* The block keeps its contents, and stays the module's. */
static void resized_here(void)
{
    char *block = take(100);
    memcpy(block, "contents", 9);
    block = realloc(block, 5000);
    REQUIRE(block != NULL && strcmp(block, "contents") == 0);
    give(block);
}

static void measured_here(void)
{
    void *block = take(100);
    REQUIRE(malloc_usable_size(block) >= 100 && hf_usable_size(block) >= 100);
    give(block);
}

static void freed_inside(void)
{
    give(malloc(100));
}

/* A private allocator's table of pages has one part for each 1 GiB of addresses. Of this heap's
 * there is none, and the entries of the first 2 MiB are then where a null pointer leads. */
static void freed_inside_far(void)
{
    enum { PART = 1 << 30, LOW = 2 << 20 };
    void *block;
    do
        block = hidden(malloc(100));
    while ((uintptr_t)block % PART < LOW);
    give(block);
}

/* Not the beginning of a block: what the module crashes over has no owner that could be named. */
static void freed_inside_a_block(void)
{
    give((char *)malloc(100000) + 5000);
}

/* A mistake that has nothing to do with the module's allocator. */
static void misses(void)
{
    __typeof__(&module_misses) follow;
    *(void **)&follow = function(load(0), "module_misses");
    (void)follow(hidden(malloc(100)));
}

/* ---- a module that is linked with the shim ---- */

static void line(void)
{
    static char text[] = "a line that is longer than the block of one byte that it gets at first\n";
    __typeof__(&module_line) reader;
    *(void **)&reader = function(load(0), "module_line");
    FILE *stream = fmemopen(text, strlen(text), "r");
    char *read = reader(stream);
    REQUIRE(read != NULL && strcmp(read, text) == 0);
    fclose(stream);
    free(read);
}

static void shimmed_both_ways(void)
{
    free(take(100));
    give(malloc(100));
}

static void shimmed_twice(void)
{
    void *block = hidden(malloc(100));
    give(block);
    give(block);
}

/* ---- modules that come and go ---- */

enum { ROUNDS = 10 };

/* The first module allocates three blocks in each round, the second one five. */
/* Each module frees a block of its own, and has another one freed here. */
static void many(void)
{
    char *paths = strdup(getenv("MODULES"));
    for (char *path = strtok(paths, ":"); path != NULL; path = strtok(NULL, ":")) {
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(module != NULL);
        __typeof__(&module_take) taker;
        __typeof__(&module_give) giver;
        *(void **)&taker = function(module, "module_take");
        *(void **)&giver = function(module, "module_give");
        giver(hidden(taker(100)));
        free(taker(100));
    }
    free(paths);
}

static void reloaded(void)
{
    void *places[2] = {NULL, NULL};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        void *module = load(i % 2);
        __typeof__(&module_take) taker;
        __typeof__(&module_fault) fault;
        *(void **)&taker = places[i % 2] = function(module, "module_take");
        *(void **)&fault = function(module, "module_fault");
        for (int block = 0; block < (i % 2 == 0 ? 3 : 5); block++)
            free(taker(40));
        fault();
        dlclose(module);
    }
    puts(places[0] == places[1] ? "same addresses" : "other addresses");
}

/* ---- homefree's own functions, called wrongly ---- */

static void hf_twice(void)
{
    void *block = hidden(hf_malloc(40));
    hf_free(block);
    hf_free(hidden(block));
}

static void hf_inside(void)
{
    hf_free((char *)hidden(hf_malloc(400)) + 64);
}

static void hf_wrong_size(void)
{
    hf_free_sized(hidden(hf_malloc(40)), 41);
}

/* A block whose address is no multiple of 4096. */
static void *unaligned(void)
{
    void *block = hidden(hf_aligned_alloc(64, 64));
    while ((uintptr_t)block % 4096 == 0)
        block = hidden(hf_aligned_alloc(64, 64));
    return block;
}

static void hf_wrong_alignment(void)
{
    hf_free_aligned(unaligned(), 4096);
}

static void hf_wrong_alignment_and_size(void)
{
    hf_free_aligned_sized(unaligned(), 4096, 64);
}

static void hf_resized_after_free(void)
{
    void *block = hidden(hf_malloc(40));
    hf_free(block);
    errno = 0;
    REQUIRE(hf_realloc(hidden(block), 80) == NULL && errno == ENOMEM);
}

static void hf_resized_static(void)
{
    static char data[64];
    errno = 0;
    REQUIRE(hf_realloc(hidden(data), 80) == NULL && errno == ENOMEM);
}

/* The block is whole but for what lies behind it. */
static void hf_resized_after_overrun(void)
{
    char *block = hidden(hf_malloc(40));
    memset(block, 0x5a, hf_usable_size(block) + 8);
    block = hf_realloc(block, 4000);
    REQUIRE(block != NULL && block[0] == 0x5a && block[39] == 0x5a);
    hf_free(block);
}

static void hf_owner(void)
{
    char *block = hf_malloc(100);
    struct hf_owner owner = {.size = sizeof owner};
    REQUIRE(hf_owner_of(block + 50, &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    REQUIRE(owner.block == block && owner.block_size == hf_usable_size(block));
    hf_free(block);
}

/* ---- ends ---- */

enum { THREADS = 8, BLOCKS = 50 };
static pthread_key_t late;

static void free_late(void *blocks)
{
    for (int i = 0; i < BLOCKS; i++)
        free(((void **)blocks)[i]);
    free(blocks);
}

static void *allocate_for_later(void *unused)
{
    (void)unused;
    void **blocks = malloc(BLOCKS * sizeof *blocks);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(30);
    REQUIRE(pthread_setspecific(late, blocks) == 0);
    return NULL;
}

/* Threads free their blocks in a destructor that runs after diagnostics mode's own. */
static void freed_by_ending_threads(void)
{
    pthread_t threads[THREADS];
    REQUIRE(pthread_key_create(&late, free_late) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate_for_later, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void ended_by_Exit(void)
{
    free(hidden(malloc(10)));
    _Exit(6);
}

/* operator new in a process without a C++ runtime. */
static void no_memory_and_no_runtime(void)
{
    void *(*new)(size_t);
    *(void **)&new = function(RTLD_DEFAULT, "_Znwm");
    free(new (100));
    new (SIZE_MAX / 2);
}

static const struct named_case cases[] = {
    {"freed-here", freed_here},
    {"freed-by-homefree", freed_by_homefree},
    {"resized-here", resized_here},
    {"measured-here", measured_here},
    {"freed-inside", freed_inside},
    {"freed-inside-far", freed_inside_far},
    {"freed-inside-a-block", freed_inside_a_block},
    {"misses", misses},
    {"line", line},
    {"shimmed-both-ways", shimmed_both_ways},
    {"shimmed-twice", shimmed_twice},
    {"many", many},
    {"reloaded", reloaded},
    {"hf-twice", hf_twice},
    {"hf-inside", hf_inside},
    {"hf-wrong-size", hf_wrong_size},
    {"hf-wrong-alignment", hf_wrong_alignment},
    {"hf-wrong-alignment-and-size", hf_wrong_alignment_and_size},
    {"hf-resized-after-free", hf_resized_after_free},
    {"hf-resized-static", hf_resized_static},
    {"hf-resized-after-overrun", hf_resized_after_overrun},
    {"hf-owner", hf_owner},
    {"freed-by-ending-threads", freed_by_ending_threads},
    {"ended-by-Exit", ended_by_Exit},
    {"no-memory-and-no-runtime", no_memory_and_no_runtime},
};

NAMED_CASES_MAIN(cases)
