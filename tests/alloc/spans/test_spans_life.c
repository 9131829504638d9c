/* The life of small blocks and of their spans: blocks do not overlap, what is wrong is told at
 * once, memory that nobody uses goes back, and a heap without memory hands out all that is free.
 * Each test runs in a child, because a process has one region. */
#include "alloc/heap/fork_gate.h"
#include "alloc/pages/pages.h"
#include "core.h"

#include "alloc/spans/supply.h"
#include "death.h"
#include "suite.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGION ((size_t)1 << 30)
#define MIB    ((size_t)1 << 20)

static struct hf_spans_count count(void)
{
    return hf_spans_count();
}

static void blocks_do_not_overlap(void *unused)
{
    enum { BLOCKS = 5000 };
    static unsigned char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    unsigned seed = 1;
    (void)unused;
    core_start(REGION);
    for (int round = 0; round < 20 * BLOCKS; round++) {
        const size_t i = (size_t)rand_r(&seed) % BLOCKS;
        if (blocks[i] != NULL) {
            for (size_t at = 0; at < sizes[i]; at++)
                must(blocks[i][at] == (unsigned char)i);
            must(core_give(blocks[i]) == -1);
            blocks[i] = NULL;
            continue;
        }
        sizes[i] = (size_t)rand_r(&seed) % (rand_r(&seed) % 50 == 0 ? HF_LARGEST : 400) + 1;
        blocks[i] = core_take(sizes[i]);
        must(blocks[i] != NULL && (uintptr_t)blocks[i] % 16 == 0);
        memset(blocks[i], (int)i, sizes[i]);
    }
    uint64_t live = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        live += blocks[i] != NULL;
    must(count().blocks == live);
}

static void fill(size_t bytes, size_t size, char **list)
{
    for (size_t taken = 0; taken < bytes; taken += size) {
        char *block = core_take(size);
        must(block != NULL);
        memcpy(block, list, sizeof *list);
        *list = block;
    }
}

static void empty(char **list)
{
    for (char *block = *list, *next; block != NULL; block = next) {
        memcpy(&next, block, sizeof next);
        must(core_give(block) == -1);
    }
    *list = NULL;
}

/* Each error, and that it changes nothing. */
static void errors_are_told(void *unused)
{
    (void)unused;
    core_start(REGION);
    for (size_t size = 0; size <= HF_LARGEST; size = 2 * size + 8) {
        char *block = core_take(size), *other = core_take(size);
        struct hf_span *span = hf_entry_span(hf_entry_of(block));
        for (size_t at = 1; at < hf_classes[span->class].size; at += at < 64 ? 1 : 999)
            must(core_give(block + at) == HF_CORRUPT_INSIDE);
        must(core_give(block) == -1);
        must(core_give(block) == HF_CORRUPT_FREED);
        must(core_give(other) == -1);
        must(core_give(block) == HF_CORRUPT_FREED);
        must(core_give(hf_span_block(span, span->before + span->blocks - 1U)) != -1);
        /* Behind the span's last block, and in front of its first. */
        char *start = hf_span_start(span), *end = start + hf_span_bytes(span);
        char *last = hf_span_block(span, span->before + (uint32_t)span->blocks);
        must(last >= end || core_give(last) == HF_CORRUPT_NO_BLOCK);
        must(span->before == 0 || core_give(start) == HF_CORRUPT_NO_BLOCK);
    }
    must(count().blocks == 0);
    /* A span that is gone. */
    char *list[2] = {NULL, NULL};
    fill(MIB, 20000, &list[0]);
    char *block = list[0];
    const struct hf_entry *entry = hf_entry_of(block);
    empty(&list[0]);
    hf_spans_trim(false);
    must(entry->owner != NULL || (hf_span_was(block, entry) && !hf_span_was(block + 16, entry)));
    void *nowhere = hf_pages_take(HF_UNIT, HF_UNIT, false);
    must(core_give(nowhere) == HF_CORRUPT_NO_BLOCK);
}

static size_t resident(void)
{
    char line[128], *second;
    FILE *statm = fopen("/proc/self/statm", "re");
    must(statm != NULL && fgets(line, sizeof line, statm) != NULL);
    fclose(statm);
    (void)strtoul(line, &second, 10);
    return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void unused_spans_go_back(void *unused)
{
    (void)unused;
    core_start(REGION);
    const size_t before = resident();
    for (int round = 0; round < 3; round++)
        for (size_t size = 16; size <= HF_LARGEST; size *= 2) {
            char *list = NULL;
            fill(32 * MIB, size, &list);
            must(count().live >= 32 * MIB && core_pages_taken() >= 32 * MIB);
            empty(&list);
            must(count().live == 0);
            must(core_pages_taken() < 32 * MIB); /* most goes at once */
        }
    must(count().active < 4 * MIB);
    hf_spans_trim(false);
    hf_spans_trim(false);
    must(resident() < before + count().metadata + count().active + 2 * MIB);
}

static void what_is_free_is_handed_out(void *unused)
{
    enum { EACH = 97 };
    (void)unused;
    core_start(REGION);
    for (size_t size = 16; size <= 1024; size *= 4) {
        const size_t blocks = 8 * MIB / size;
        char **all = calloc(blocks + 1, sizeof *all);
        size_t got = 0, freed = 0;
        core_pages_left(SIZE_MAX);
        while (got < blocks)
            must((all[got++] = core_take(size)) != NULL);
        core_pages_left(0);
        while (got < blocks + 100000 / size && core_take(size) != NULL)
            ; /* what is left of the last span and the last piece */
        while (core_take(size) != NULL)
            ;
        for (size_t i = 0; i < blocks; i += EACH, freed++)
            must(core_give(all[i]) == -1);
        for (size_t i = 0; i < freed; i++)
            must(core_take(size) != NULL);
        must(core_take(size) == NULL);
        free(all);
    }
}

/* All functions that take memory may fail, wherever memory ends. */
static void no_memory_at_any_moment(void *unused)
{
    (void)unused;
    core_start(32 * MIB);
    for (int round = 0; round < 3; round++) {
        char *list = NULL;
        size_t size = 16;
        for (;;) {
            char *block = core_take(size);
            if (block == NULL && size == 16)
                break;
            size = block == NULL ? 16 : size * 3 % 30011 + 8;
            if (block == NULL)
                continue;
            memcpy(block, &list, sizeof list);
            list = block;
        }
        must(count().live > 16 * MIB);
        empty(&list);
        hf_spans_trim(true);
        must(count().live == 0);
    }
}

static void a_dropped_heap_is_gone(void *unused)
{
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    struct hf_pass pass;
    (void)unused;
    core_start(REGION);
    must(core_give(core_take(8)) == -1);
    must(hf_gate_enter(&pass));
    for (int round = 0; round < 10; round++) {
        const uint64_t before = count().blocks;
        struct hf_local *local = hf_local_make();
        must(local != NULL);
        for (size_t i = 0; i < BLOCKS; i++) {
            must((blocks[i] = hf_span_take(local, hf_class_of(i % 3000))) != NULL);
            if (i % 7 == 0)
                must(core_give(blocks[i]) == -1); /* as another thread's */
            else if (i % 5 == 0)
                must(hf_span_give(local, blocks[i], hf_entry_of(blocks[i])) == -1);
        }
        hf_local_drop(local);
        for (size_t i = 0; i < BLOCKS; i++)
            must(core_give(blocks[i]) == HF_CORRUPT_NO_BLOCK);
        must(count().blocks == before);
    }
    hf_spans_trim(true);
    must(core_pages_taken() < 4 * MIB);
    hf_gate_leave(&pass);
}

/* The first blocks that are freed stay in a stack, here one of each span. */
static void stacks_keep_no_spans_from_others(void *unused)
{
    enum { SIZE = 2560, OTHER = 512, SPANS = 48, BLOCKS = SPANS * (HF_UNIT / SIZE) };
    static char *blocks[BLOCKS];
    char *list = NULL;
    (void)unused;
    core_start(REGION);
    for (size_t i = 0; i < BLOCKS; i++)
        must((blocks[i] = core_take(SIZE)) != NULL);
    const uint64_t before = hf_pages_taken();
    for (size_t first = 0; first < HF_UNIT / SIZE; first++)
        for (size_t i = first; i < BLOCKS; i += HF_UNIT / SIZE)
            must(core_give(blocks[i]) == -1);
    fill((size_t)BLOCKS * SIZE, OTHER, &list);
    must(hf_pages_taken() < before + before / 2);
}

static void run(void (*body)(void *))
{
    assert_succeeds(outcome_of_call(body, NULL));
}

START_TEST(blocks)
{
    run(blocks_do_not_overlap);
    run(errors_are_told);
}
END_TEST

START_TEST(memory)
{
    run(unused_spans_go_back);
    run(stacks_keep_no_spans_from_others);
    run(what_is_free_is_handed_out);
    run(no_memory_at_any_moment);
}
END_TEST

START_TEST(dropping)
{
    run(a_dropped_heap_is_gone);
}
END_TEST

int main(void)
{
    return RUN_SUITE(blocks, memory, dropping);
}
