/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See reachable.h. Owns the list of ranges, a bit for each 8 bytes of the region, and the list of
 * blocks that are still to be read.
 *
 * Not read: this library's own data, and the report. They hold addresses of blocks that are free.
 */
#include "alloc/diagnose/reachable.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/watch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORD sizeof(uint64_t)

enum {
    RANGES_MAX = 1 << 17,
    UNIT = 8, /* blocks begin at multiples */
    SKIPPED_MAX = 8 + HF_WATCHES_MAX,
    CHUNK = 1 << 16,
    PAGES_MAX = 512, /* whose entries of the page map are read at a time */
    SECONDS_MAX = 30,
    RECENT = 64
};

struct range {
    uintptr_t start, end;
};

static struct range *ranges; /* readable, writable memory, in ascending order */
static size_t range_count;
static struct range skipped[SKIPPED_MAX];
static size_t skipped_count;
static uintptr_t limit; /* of what the heap has used in the region */
static uint8_t *marks;
static size_t marks_size, pending_size;
static uintptr_t *pending; /* first bytes of marked blocks that are to be read */
static size_t pending_count;
static struct block {
    uintptr_t start;
    size_t size;
} recent[RECENT];
static uintptr_t page;
static int page_map = -1;
static time_t deadline;
static bool late;
static uintptr_t words[CHUNK / sizeof(uintptr_t)];
static struct range window; /* what `words` is a copy of, for word_at() */
static bool alone;          /* no other thread runs */
static bool begun;

/* ---- beginning ---- */

void hf_reachable_skip(const void *start, size_t size)
{
    if (skipped_count < SKIPPED_MAX && size != 0)
        skipped[skipped_count++] = (struct range){(uintptr_t)start, (uintptr_t)start + size};
}

static void *reserve(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    hf_reachable_skip(at, size);
    return at;
}

/* Reading the memory of a device may do anything. */
static bool is_device(const struct hf_mapping *mapping)
{
    return strncmp(mapping->name, "/dev/", 5) == 0 && strncmp(mapping->name, "/dev/shm/", 9) != 0 &&
           strcmp(mapping->name, "/dev/zero") != 0;
}

static bool add_range(const struct hf_mapping *mapping, void *context)
{
    (void)context;
    if (!mapping->readable || !mapping->writable || is_device(mapping))
        return true;
    if (range_count == RANGES_MAX)
        return false;
    ranges[range_count++] = (struct range){mapping->start, mapping->end};
    if (hf_owned((const void *)mapping->start) && mapping->end > limit)
        limit = mapping->end;
    return true;
}

static void skip_own_data(void)
{
    struct hf_object own;
    const struct link_map *map = hf_dynlink_find_fast(&hf_region);
    if (map == NULL || !hf_dynlink_open(map, &own))
        return;
    hf_object_segments(&own);
    for (size_t i = 0; i < own.writable_count; i++)
        hf_reachable_skip((const void *)own.writable[i].start, own.writable[i].size);
}

bool hf_reachable_begin(void)
{
    uintptr_t probe = 0, found;
    struct timespec now;
    struct stat tasks;
    if (__atomic_exchange_n(&begun, true, __ATOMIC_ACQUIRE))
        return false;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    alone = stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink <= 3; /* and "." and ".." */
    range_count = skipped_count = pending_count = 0;
    limit = hf_region.base;
    late = false;
    if (!hf_maps_read(&probe, &found, sizeof found) ||
        (ranges = reserve(RANGES_MAX * sizeof *ranges)) == NULL) {
        __atomic_store_n(&begun, false, __ATOMIC_RELEASE);
        return false;
    }
    hf_watch_each_mapping(hf_reachable_skip);
    skip_own_data();
    hf_reachable_skip(hf_report_header(), hf_report_reserved());
    marks = NULL;
    pending = NULL;
    bool works = hf_maps_each(add_range, NULL) == 0 && range_count < RANGES_MAX;
    if (works) {
        const size_t units = (limit - hf_region.base) / UNIT + 1;
        marks_size = units / 8 + 1;
        pending_size = units * sizeof *pending;
        marks = reserve(marks_size);
        pending = reserve(pending_size);
    }
    if (!works || marks == NULL || pending == NULL) {
        hf_reachable_end();
        return false;
    }
    page_map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    deadline = now.tv_sec + SECONDS_MAX;
    return true;
}

void hf_reachable_end(void)
{
    (void)munmap(ranges, RANGES_MAX * sizeof *ranges);
    if (marks != NULL)
        (void)munmap(marks, marks_size);
    if (pending != NULL)
        (void)munmap(pending, pending_size);
    if (page_map >= 0)
        (void)close(page_map);
    page_map = -1;
    __atomic_store_n(&begun, false, __ATOMIC_RELEASE);
}

static bool is_late(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return late = late || now.tv_sec > deadline;
}

/* ---- blocks ---- */

/* Whether memory of the region is the plain heap's. */
static bool is_plain(uintptr_t address)
{
    return hf_owned((const void *)address) && hf_hosted_of((const void *)address) == NULL;
}

/* A word of a range, which other threads may be unmapping; 0 if it cannot be read. */
static uint64_t word_at(const struct range *range, uintptr_t address)
{
    uint64_t word = 0;
    if (address - window.start >= window.end - window.start || window.end - address < sizeof word) {
        window.start = address & -page;
        window.end = range->end - window.start < CHUNK ? range->end : window.start + CHUNK;
        if (window.end - address < sizeof word ||
            !hf_maps_read((const void *)window.start, words, window.end - window.start)) {
            window.end = window.start;
            return 0;
        }
    }
    memcpy(&word, (const char *)words + (address - window.start), sizeof word);
    return word;
}

static void visit_range(const struct range *range, hf_block_visitor *visit)
{
    struct hf_footer footer;
    const void *block;
    for (uintptr_t at = range->start; at < range->end && !late;) {
        const size_t capacity = is_plain(at) ? hf_heap_capacity((const void *)at) : 0;
        enum hf_footer_state state = HF_FOOTER_DAMAGED;
        if (capacity > HF_FOOTER && capacity <= range->end - at) {
            const uintptr_t end = at + capacity;
            state = hf_footer_parse((const void *)at, capacity, word_at(range, end - WORD),
                                    capacity > HF_SLACK_FAR ? word_at(range, end - 2 * WORD) : 0,
                                    &footer);
        }
        if (state == HF_FOOTER_LIVE &&
            (hf_plain_block((const void *)at, &block) == 0 || block != (const void *)at))
            state = HF_FOOTER_DAMAGED;
        if (state != HF_FOOTER_DAMAGED) {
            visit((const void *)at, capacity, footer, state == HF_FOOTER_LIVE);
            at += capacity;
        } else {
            at = is_plain(at) ? hf_heap_next(at) : (at | (page - 1)) + 1;
        }
        if (at % page == 0)
            (void)is_late();
    }
}

void hf_reachable_each_block(hf_block_visitor *visit)
{
    window = (struct range){0, 0};
    for (size_t i = 0; i < range_count; i++)
        if (hf_owned((const void *)ranges[i].start)) /* its first page may be lent */
            visit_range(&ranges[i], visit);
    hf_guarded_each(visit);
}

static bool mark(uintptr_t start)
{
    const size_t unit = (start - hf_region.base) / UNIT;
    const uint8_t bit = (uint8_t)(1 << unit % 8);
    const bool is_new = (marks[unit / 8] & bit) == 0;
    marks[unit / 8] |= bit;
    return is_new;
}

bool hf_reachable_is(const void *block)
{
    const size_t unit = ((uintptr_t)block - hf_region.base) / UNIT;
    return (uintptr_t)block >= limit || (marks[unit / 8] >> unit % 8 & 1) != 0;
}

/* The live block that an address lies in. is_new: unless it is marked, which spares reading its
 * footer. */
static bool find_block(uintptr_t address, bool is_new, struct block *out)
{
    struct block *known = &recent[address >> 21 & (RECENT - 1)];
    struct hf_footer footer;
    const void *block;
    if (address - known->start < known->size) {
        *out = *known;
        return true;
    }
    if (hf_guarded_holds((const void *)address)) {
        out->size = hf_guarded_block((const void *)address, &block);
    } else {
        out->size = hf_plain_block((const void *)address, &block);
        if (out->size <= HF_FOOTER || (is_new && hf_reachable_is(block)))
            return false;
        uint64_t end[2] = {0}; /* its last word, and in front of it the one that counts if far */
        const size_t size = out->size > HF_SLACK_FAR ? sizeof end : WORD;
        const char *from = (const char *)block + out->size - size;
        uint64_t *to = &end[2 - size / WORD];
        if (alone)
            memcpy(to, from, size);
        else if (!hf_maps_read(from, to, size))
            return false;
        /* Zeros are the footer of an unknown site at some addresses; the heap's own blocks, whose
         * caches list blocks that nobody else points to any more, may end in them. */
        if (end[1] >> 16 == 0 ||
            hf_footer_parse(block, out->size, end[1], end[0], &footer) != HF_FOOTER_LIVE)
            return false;
        out->size -= HF_FOOTER;
    }
    out->start = (uintptr_t)block;
    if (out->size > CHUNK) /* finding it took long */
        *known = *out;
    return out->size != 0;
}

/* ---- reading ---- */

static inline void take_address(uintptr_t address)
{
    struct block block;
    if (address - hf_region.base < limit - hf_region.base && find_block(address, true, &block) &&
        mark(block.start))
        pending[pending_count++] = block.start;
}

/* A word may be an address with a tag above its 48 bits, or two digits of a Python int, which have
 * 30 bits each. */
static void take_words(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uintptr_t word = words[i];
        take_address(word << 16 >> 16);
        if ((word & UINT64_C(0xc0000000c0000000)) == 0)
            take_address((word & UINT32_MAX) | word >> 32 << 30);
    }
}

static void read_piece(uintptr_t start, uintptr_t end)
{
    for (uintptr_t at = start; at < end && !is_late(); at += CHUNK) {
        const size_t size = end - at < CHUNK ? end - at : CHUNK;
        if (hf_maps_read((const void *)at, words, size))
            take_words(size / sizeof words[0]);
        else if (size > page && page <= CHUNK / 2) /* a part of it cannot be read any more */
            for (uintptr_t part = at; part < at + size; part += page)
                if (hf_maps_read((const void *)part, words, page))
                    take_words(page / sizeof words[0]);
    }
}

/* Leaves out pages that were never touched: there may be terabytes. */
static void read_touched(uintptr_t start, uintptr_t end)
{
    static uint64_t entries[PAGES_MAX];
    for (uintptr_t at = start & -page; at < end && !is_late(); at += PAGES_MAX * page) {
        const ssize_t size = pread(page_map, entries, sizeof entries, (off_t)(at / page * 8));
        const size_t known = size > 0 ? (size_t)size / 8 : 0;
        for (size_t i = 0; i < PAGES_MAX && at + i * page < end; i++) {
            const uintptr_t from = at + i * page > start ? at + i * page : start;
            const uintptr_t to = at + (i + 1) * page < end ? at + (i + 1) * page : end;
            if (i >= known || entries[i] >> 62 != 0) /* present, or swapped out */
                read_piece(from, to);
        }
    }
}

static void read_memory(uintptr_t start, uintptr_t end)
{
    start = (start + sizeof(uintptr_t) - 1) & -sizeof(uintptr_t);
    end &= -sizeof(uintptr_t);
    if (start >= end)
        return;
    if (end - start <= CHUNK || page_map < 0)
        read_piece(start, end);
    else
        read_touched(start, end);
}

/* Reads a range but for what is skipped, from the index-th on. */
static void read_root(uintptr_t start, uintptr_t end, size_t index)
{
    while (index < skipped_count && (skipped[index].end <= start || skipped[index].start >= end))
        index++;
    if (index == skipped_count) {
        read_memory(start, end);
        return;
    }
    if (skipped[index].start > start)
        read_root(start, skipped[index].start, index + 1);
    if (skipped[index].end < end)
        read_root(skipped[index].end, end, index + 1);
}

static void read_pending(void)
{
    struct block block;
    while (pending_count != 0 && !late) {
        const uintptr_t start = pending[--pending_count];
        if (find_block(start, false, &block))
            read_memory(block.start, block.start + block.size);
    }
}

/* Reads what the heap has lent in a range of the region: the objects in pymalloc's arenas. */
static void read_lent(const struct range *range)
{
    for (uintptr_t at = range->start, end; at < range->end; at = end) {
        const bool plain = is_plain(at);
        for (end = at; end < range->end && is_plain(end) == plain;)
            end = (end | (page - 1)) + 1;
        if (!plain && !is_late()) {
            read_root(at, end, 0);
            read_pending();
        }
    }
}

bool hf_reachable_mark(const void *stack)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    memset(recent, 0, sizeof recent);
    for (size_t i = 0; i < range_count && !is_late(); i++) {
        struct range range = ranges[i];
        if (hf_guarded_holds((const void *)range.start))
            continue;
        if (hf_owned((const void *)range.start)) {
            read_lent(&range);
            continue;
        }
        if (here - range.start < range.end - range.start)
            range.start = (uintptr_t)stack;
        read_root(range.start, range.end, 0);
        read_pending();
    }
    return !late;
}
