/*
 * A program whose memory lies to whoever looks at it: it exports the names that libhomefree
 * exports, with tables of wild counts, sizes and addresses, ties the dynamic linker's lists into a
 * knot, and keeps things that look like a report. Then it says "ready PID" and waits for the end of
 * stdin.
 *
 * Usage: liar COUNTS|ADDRESSES|LOOPS|PAGES|VERSION|NEW|TRIM|ELSEWHERE|SEED [REPORT-FILE]
 */
#include "alloc/diagnose/report_format.h"
#include "alloc/heap/instance.h"
#include "loader/record/live_state.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Exported: the program looks like an instance of libhomefree that is the heap. It has no magic, so
 * that a real copy does not forward to it. */
struct hf_instance hf_instance_record = {
    .abi = HF_INSTANCE_ABI,
    .state = HF_INSTANCE_HEAP,
    .region_size = UINT64_MAX,
};
static uint64_t route = 1;
static struct hf_live_stubs stubs;
static struct hf_live_foreign foreign;
static struct hf_live_blocks blocks;
HF_API struct hf_live_state hf_live_state;

static unsigned char zeros[4096];
/* Every word is the address of the array itself. */
static const void *self[1 << 18];
static char name[1 << 16];

static void lie_about_counts(void)
{
    stubs = (struct hf_live_stubs){self, 8, 0, 0, UINT64_MAX, UINT64_MAX};
    foreign = (struct hf_live_foreign){self,       self,       UINT64_MAX, 1,          UINT64_MAX,
                                       UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, self,
                                       UINT64_MAX, 63,         0};
    memset(&blocks, 0xff, sizeof blocks);
}

/* A region of all addresses, whose entries have one owner. */
static void lie_about_books(const void *owner, const void *large)
{
    static uint64_t region[2] = {0, UINT64_C(1) << 47};
    static uint64_t table;
    table = (uint64_t)(uintptr_t)self;
    for (size_t i = 0; i < sizeof self / sizeof self[0]; i++)
        self[i] = owner;
    blocks = (struct hf_live_blocks){.region = region,
                                     .entries = &table,
                                     .sizes = self,
                                     .classes = self,
                                     .large = large,
                                     .class_count = 256,
                                     .class_size = 8,
                                     .class_units = 4,
                                     .unit_shift = 12,
                                     .entry_size = 24,
                                     .entry_state = 8,
                                     .entry_first = 16,
                                     .entry_class = 20,
                                     .entry_waits = 21,
                                     .span_size = 64,
                                     .large_states = 15};
}

static void lie_about_addresses(void)
{
    const void *wild = (const void *)(uintptr_t)0xffffffffff600000;
    lie_about_books(wild, wild);
    stubs = (struct hf_live_stubs){(const void *)UINTPTR_MAX, 4096, 4096, 4096, 256, 64};
    foreign = (struct hf_live_foreign){.entries = (const void *)1,
                                       .states = wild,
                                       .count = 255,
                                       .entry_size = 4096,
                                       .pages = (const void *)UINTPTR_MAX,
                                       .pages_count = 1 << 18,
                                       .leaf_shift = 30,
                                       .page_shift = 12};
}

static void lie_in_circles(void)
{
    for (size_t i = 0; i < sizeof self / sizeof self[0]; i++)
        self[i] = self;
    memset(name, 'x', sizeof name);
    lie_about_books(self, self); /* every entry is that of a large block or of a span */
    stubs = (struct hf_live_stubs){self, 0, 0, 0, 256, 64};
    foreign = (struct hf_live_foreign){.entries = self,
                                       .states = zeros,
                                       .count = 255,
                                       .known = 0,
                                       .pages = self,
                                       .pages_count = 1 << 18,
                                       .leaf_shift = 30,
                                       .page_shift = 12};
    /* The list of objects, and that of namespaces, lead back to where they began. */
    struct link_map *map = _r_debug.r_map;
    while (map->l_next != NULL)
        map = map->l_next;
    map->l_next = _r_debug.r_map;
#if __GLIBC_PREREQ(2, 35)
    struct r_debug_extended *lists = (struct r_debug_extended *)&_r_debug;
    lists->base.r_version = 2;
    lists->r_next = lists;
#endif
}

/* A name without an end, in an allocator of the program's. */
static void lie_about_pages(void)
{
    static const void *entry[8];
    memset(name, 'x', sizeof name);
    memset(zeros, 1, sizeof zeros);
    entry[0] = name;
    entry[1] = _r_debug.r_map;
    stubs = (struct hf_live_stubs){self, 8, 0, 0, 1, 1};
    foreign = (struct hf_live_foreign){.entries = entry,
                                       .states = zeros,
                                       .count = 256,
                                       .known = 1,
                                       .entry_map = 8,
                                       .entry_form = 0,
                                       .pages = zeros,
                                       .pages_count = 512,
                                       .leaf_shift = 30,
                                       .page_shift = 12};
}

/* Each number is small, wild, or the address of something of the program's. */
static uint64_t pick(void)
{
    const uint64_t all[] = {0,
                            1,
                            2,
                            8,
                            16,
                            30,
                            255,
                            256,
                            4096,
                            (uint64_t)rand(),
                            UINT64_MAX,
                            (uint64_t)(uintptr_t)self,
                            (uint64_t)(uintptr_t)zeros,
                            (uint64_t)(uintptr_t)name,
                            (uint64_t)(uintptr_t)_r_debug.r_map};
    return all[(size_t)rand() % (sizeof all / sizeof all[0])];
}

static void lie_at_random(unsigned seed)
{
    uint64_t words[sizeof foreign / sizeof(uint64_t)];
    srand(seed);
    for (size_t i = 0; i < sizeof self / sizeof self[0]; i++)
        self[i] = (const void *)(uintptr_t)pick();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        words[i] = pick();
    memcpy(&foreign, words, sizeof foreign);
    memcpy(&stubs, words + 1, sizeof stubs);
    uint64_t *numbers = (uint64_t *)&blocks;
    lie_about_books(zeros, seed % 2 == 0 ? zeros : NULL);
    for (unsigned i = 0; i < seed % 4; i++)
        numbers[(size_t)rand() % (sizeof blocks / sizeof *numbers)] = pick();
}

/* A report whose numbers are all as large as they can be. */
static void lie_in_report(const char *path)
{
    enum { CHUNKS = 1024 };
    const size_t size = (size_t)CHUNKS * HF_REPORT_CHUNK;
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        abort();
    char *report = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (report == MAP_FAILED)
        abort();
    memset(report, 0xff, size);
    memcpy(report, HF_REPORT_MAGIC, 8);
    struct hf_report_header *header = (struct hf_report_header *)report;
    header->version = HF_REPORT_VERSION;
    header->chunks = CHUNKS;
    header->end = HF_REPORT_RUNS;
    for (size_t i = 1; i < CHUNKS; i++) {
        struct hf_report_chunk *chunk = (struct hf_report_chunk *)(report + i * HF_REPORT_CHUNK);
        chunk->type = (uint32_t)(i % HF_REPORT_TYPES);
        chunk->used = i % 2 == 0 ? UINT32_MAX : HF_REPORT_CHUNK - sizeof *chunk;
        chunk->first = i % 3 == 0 ? UINT32_MAX : (uint32_t)i;
    }
}

/* Answers requests to trim as soon as they come, with strings that do not end. */
static void lie_about_trimming(void)
{
    static struct hf_live_trim trim;
    hf_live_state.trim = &trim;
    memset(&trim, 0x1b, sizeof trim); /* what controls terminals */
    trim.asked = trim.answered = 0;
    trim.listens = 1;
    trim.error = 0;
    trim.count = HF_LIVE_TRIM_ROWS;
    printf("ready %d\n", (int)getpid());
    while (__atomic_load_n(&trim.asked, __ATOMIC_RELAXED) == 0)
        (void)usleep(1000);
    trim.answered = trim.asked;
}

/* What looks like a request's place may not be written to. */
static void lie_about_the_place(void)
{
    static const struct hf_live_trim constant = {.listens = 1};
    hf_live_state.trim = (struct hf_live_trim *)(uintptr_t)&constant;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    char byte;
    setvbuf(stdout, NULL, _IOLBF, 0);
    hf_live_state = (struct hf_live_state){
        .magic = HF_LIVE_MAGIC,
        .version = HF_LIVE_VERSION,
        .size = sizeof hf_live_state,
        .route = &route,
        .instance_state = offsetof(struct hf_instance, state),
        .instance_is_heap = HF_INSTANCE_HEAP,
        .instance_region = offsetof(struct hf_instance, region_size),
        .stubs = &stubs,
        .foreign = &foreign,
        .blocks = &blocks,
    };
    if (strcmp(what, "COUNTS") == 0)
        lie_about_counts();
    else if (strcmp(what, "ADDRESSES") == 0)
        lie_about_addresses();
    else if (strcmp(what, "LOOPS") == 0)
        lie_in_circles();
    else if (strcmp(what, "PAGES") == 0)
        lie_about_pages();
    else if (strcmp(what, "VERSION") == 0)
        hf_live_state.version++;
    else if (strcmp(what, "TRIM") == 0)
        lie_about_trimming();
    else if (strcmp(what, "ELSEWHERE") == 0)
        lie_about_the_place();
    else if (strcmp(what, "NEW") == 0)
        hf_instance_record.state = HF_INSTANCE_NEW;
    else
        lie_at_random((unsigned)strtoul(what, NULL, 10));
    if (count > 2)
        lie_in_report(arguments[2]);
    if (strcmp(what, "TRIM") != 0)
        printf("ready %d\n", (int)getpid());
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    _exit(0);
}
