/* Watches in a diagnosed process: they name the object that called, not libhomefree-diagnose.so,
 * with the sizes that were asked for; and hf_findings_lost() finds what nothing points to any more.
 * Without a test framework, whose own blocks would be recorded here.
 */
#include "tests/check/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define MUST(condition)                                                               \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "debug_heap.c:%d: %s is not so\n", __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static struct module module;

static struct hf_watch *begin(void)
{
    struct hf_watch *watch = NULL;
    MUST(hf_watch_begin(&watch, 0) == 0);
    return watch;
}

struct sum {
    const char *from, *to;
    uint64_t count, bytes, others;
};

static void add_crossing(const struct hf_crossing *crossing, void *context)
{
    struct sum *sum = context;
    if (strstr(crossing->allocated_by, sum->from) != NULL &&
        strstr(crossing->freed_by, sum->to) != NULL) {
        sum->count += crossing->count;
        sum->bytes += crossing->bytes;
    } else {
        sum->others += crossing->count;
    }
}

static void add_left(const struct hf_left *left, void *context)
{
    struct sum *sum = context;
    if (strstr(left->allocated_by, sum->from) != NULL) {
        sum->count += left->count;
        sum->bytes += left->bytes;
    } else {
        sum->others += left->count;
    }
}

#define MUST_HAVE_CROSSED(watch, from, to, blocks, size)                          \
    do {                                                                          \
        struct sum sum_ = {from, to, 0, 0, 0};                                    \
        MUST(hf_watch_report(watch, NULL, add_crossing, &sum_) == 0);             \
        MUST(sum_.count == (blocks) && sum_.bytes == (size) && sum_.others == 0); \
    } while (0)
#define MUST_BE_LEFT(watch, from, blocks, size)                                   \
    do {                                                                          \
        struct sum sum_ = {from, "", 0, 0, 0};                                    \
        MUST(hf_watch_left(watch, add_left, &sum_) == 0);                         \
        MUST(sum_.count == (blocks) && sum_.bytes == (size) && sum_.others == 0); \
    } while (0)

/* Each function of the family, with small and large blocks; nothing crosses. */
static void family(void)
{
    static const size_t sizes[] = {1, 100, 4000, 5000, 100000, 3 << 20};
    struct hf_watch *watch = begin();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *aligned = NULL;
        free(malloc(sizes[i]));
        free(calloc(1, sizes[i]));
        free(memalign(64, sizes[i]));
        MUST(posix_memalign(&aligned, 64, sizes[i]) == 0);
        free(aligned);
        free(realloc(malloc(sizes[i]), sizes[i] + 1));
        free(realloc(malloc(sizes[i]), 2 * sizes[i]));
    }
    struct hf_watch_report report = {.size = sizeof report};
    MUST(hf_watch_report(watch, &report, NULL, NULL) == 0);
    MUST(report.crossings == 0 && report.before == 0 && report.dropped == 0);
    MUST(report.allocations == report.frees && report.frees >= 36);
    MUST_BE_LEFT(watch, "diagnosed", 0, 0);
    hf_watch_drop(watch);
}

static void crossings(void)
{
    struct hf_watch *watch = begin();
    for (int i = 0; i < 10; i++)
        free(module.make(100));
    MUST_HAVE_CROSSED(watch, "module_first", "diagnosed", 10, 1000);
    hf_watch_drop(watch);
    watch = begin();
    module.drop(malloc(10));
    module.drop(calloc(1, 10000));
    MUST_HAVE_CROSSED(watch, "diagnosed", "module_first", 2, 10010);
    hf_watch_drop(watch);
    watch = begin();
    void *grown = module.resize(malloc(10), 200000);
    void *stays = module.resize(malloc(20), 21);
    MUST_HAVE_CROSSED(watch, "diagnosed", "module_first", 2, 30);
    MUST_BE_LEFT(watch, "module_first", 2, 200021);
    module.drop(grown);
    module.drop(stays);
    MUST_BE_LEFT(watch, "module_first", 0, 0);
    hf_watch_drop(watch);
}

static void left(void)
{
    struct hf_watch *watch = begin();
    void *block = module.make(30), *large = module.make(70000), *text = module.copy("text");
    struct hf_watch_block found = {.size = sizeof found};
    MUST(hf_watch_at(watch, block, &found) == 0);
    MUST(found.allocated == 1 && strstr(found.allocated_by, "module_first") != NULL);
    MUST_BE_LEFT(watch, "module_first", 3, 70035);
    module.drop(block);
    module.drop(large);
    MUST_BE_LEFT(watch, "module_first", 1, 5);
    MUST(hf_watch_end(watch) == 0);
    free(text);
    MUST_BE_LEFT(watch, "module_first", 1, 5); /* until it ended */
    hf_watch_drop(watch);
}

static void failing(void)
{
    MUST(hf_fail_at(2, 0) == 0);
    void *first = malloc(10), *second = malloc(10), *third = malloc(10);
    MUST(hf_fail_end(0, NULL) == 0);
    MUST(first != NULL && second == NULL && third != NULL);
    free(first);
    free(third);
}

/* ---- what is lost ---- */

enum { LOST = 7 };

static void *volatile kept[8];
static volatile uint32_t digits[4] __attribute__((aligned(8)));

static __attribute__((noinline)) void lose(void)
{
    for (int i = 0; i < LOST; i++)
        memset(module.make(90), 0, 90);
}

/* In every way that counts as a pointer. */
static __attribute__((noinline)) void keep(void)
{
    kept[0] = module.make(50);
    kept[1] = (char *)module.make(50) + 40;
    kept[2] = (void *)((uintptr_t)module.make(50) | UINT64_C(0xfff8) << 48); /* a tag above */
    const uintptr_t number = (uintptr_t)module.make(50);                     /* a Python int */
    digits[0] = number & ((1 << 30) - 1);
    digits[1] = (uint32_t)(number >> 30);
    kept[3] = calloc(1, 2 << 20);
    ((void **)kept[3])[100000] = module.make(50);
}

static __attribute__((noinline)) void wipe(void)
{
    volatile char capacity[16384];
    for (size_t i = 0; i < sizeof capacity; i++)
        capacity[i] = 0;
}

static void *lose_elsewhere(void *unused)
{
    lose();
    return unused;
}

static uint64_t lost(struct hf_watch *watch)
{
    uint64_t count = 0;
    wipe();
    MUST(hf_findings_lost(watch, &count) == 0);
    return count;
}

static void losing(void)
{
    struct hf_findings *part;
    struct hf_found found = {.size = sizeof found};
    pthread_t thread;
    uint64_t count;
    MUST(hf_findings_lost(NULL, &count) == -EINVAL && hf_findings_begin(&part) == 0);
    struct hf_watch *watch = begin();
    MUST(hf_findings_lost(watch, NULL) == -EINVAL);
    keep();
    MUST(lost(watch) == 0);
    MUST(pthread_create(&thread, NULL, lose_elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
    MUST(lost(watch) == 0); /* another thread's, as documented */
    lose();
    /* Registers and the stack may still point to the last two, as GCC 14 compiles lose(). Its own
     * records are no pointers, whether the watch is open or ended. */
    const uint64_t first = lost(watch);
    MUST(first <= LOST && first >= LOST - 2);
    MUST(hf_watch_end(watch) == 0);
    const uint64_t second = lost(watch);
    MUST(second <= LOST && second >= LOST - 2);
    hf_watch_drop(watch);
    MUST(hf_findings_next(part, &found) == 1);
    MUST(strcmp(found.rule, "lost-block") == 0 && found.severity == HF_FOUND_NOTE);
    MUST(found.count == first + second && found.bytes == (first + second) * 90);
    /* By return address: the module's function ends in a jump to malloc. */
    MUST(strstr(found.allocated.object, "diagnosed") != NULL && found.freed.object == NULL);
    MUST(hf_findings_next(part, &found) == 0);
    hf_findings_end(part);
}

int main(int count, char **words)
{
    MUST(count == 2);
    if (dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL) {
        puts("skipped: before glibc 2.35, diagnostics mode does not name modules");
        return 77;
    }
    module = load_module(words[1]);
    struct hf_watch *watch = begin();
    uint64_t unused;
    const int answer = hf_findings_lost(watch, &unused);
    hf_watch_drop(watch);
    if (answer == -ENOSYS || answer == -ENOTSUP) { /* not diagnosed, or only counted */
        puts("cannot");
        return 0;
    }
    family();
    crossings();
    left();
    failing();
    losing();
    puts("done");
    return 0;
}
