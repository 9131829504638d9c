/*
 * Plays a trace of tests/bench/traces: one sample of one rival (space_rivals.h has the arguments
 * that choose it).
 *
 *   replay_trace --trace FILE --how NAME [--library FILE] [--runtime FILE] [--cpu N] [--repeats N]
 *                [--count N]
 *
 * --count  plays the trace N times and measures nothing: spaces.py counts instructions so
 *
 * Prints
 *   trace.pairs      pairs of the trace
 *   trace.requested  the most bytes that the trace has at a time
 *   trace.reserved   the most bytes that the rival had reserved, after the trace was played once
 * (for homefree's heap: bytes of the region taken so far); left out if it does not tell trace.ratio
 * reserved/requested trace.again      reserved/requested after all repeats: what wanders off shows
 * here trace.pair       nanoseconds a pair, by the thread's processor time, the least of the
 * repeats trace.real       the same on the wall
 */
#include "bench.h"
#include "space_rivals.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS_MAX = 401 };

struct operation {
    size_t size; /* 0 for freeing */
    uint32_t block;
    uint32_t stream;
};

struct trace {
    struct operation *operations;
    size_t count, capacity, pairs;
    uint32_t blocks;
    uint32_t streams;
    uint64_t requested;
};

static void add(struct trace *trace, struct operation operation)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity * 2 + 4096;
        trace->operations = realloc(trace->operations, trace->capacity * sizeof operation);
        if (trace->operations == NULL)
            bench_fail("no memory for the trace");
    }
    trace->operations[trace->count++] = operation;
    if (operation.block >= trace->blocks)
        trace->blocks = operation.block + 1;
    if (operation.stream >= trace->streams)
        trace->streams = operation.stream + 1;
}

static struct trace read_trace(const char *path)
{
    struct trace trace = {0};
    char line[128];
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL)
        bench_fail("cannot open the trace; usage: see the head of replay_trace.c");
    for (size_t number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        unsigned long values[3] = {0};
        char *at = line + 1;
        size_t wanted = line[0] == 'a' ? 3 : 2;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        for (size_t i = 0; i < wanted; i++) {
            char *end = at;
            values[i] = strtoul(at, &end, 10);
            if ((line[0] != 'a' && line[0] != 'f') || end == at || values[0] > UINT32_MAX / 2)
                bench_fail("%s:%zu: not an operation", path, number);
            at = end;
        }
        add(&trace, (struct operation){.size = line[0] == 'a' ? values[1] : 0,
                                       .block = (uint32_t)values[0],
                                       .stream = (uint32_t)values[wanted - 1]});
    }
    fclose(file);
    return trace;
}

/* Checks that each block is allocated once and then freed once, and finds the peak. */
static void check(struct trace *trace)
{
    size_t *sizes = calloc(trace->blocks + 1, sizeof *sizes);
    uint64_t now = 0;
    if (sizes == NULL)
        bench_fail("no memory for the trace");
    for (size_t i = 0; i < trace->count; i++) {
        const struct operation *each = &trace->operations[i];
        size_t *size = &sizes[each->block];
        if ((each->size != 0) != (*size == 0))
            bench_fail("operation %zu: block %u is allocated or freed twice", i, each->block);
        now = each->size != 0 ? now + each->size : now - *size;
        trace->pairs += each->size != 0;
        trace->requested = now > trace->requested ? now : trace->requested;
        *size = each->size;
    }
    if (now != 0 || trace->pairs == 0)
        bench_fail("the trace frees not all that it allocates");
    free(sizes);
}

static void play(const struct rival *rival, const struct trace *trace, void **blocks,
                 void *const *streams)
{
    for (size_t i = 0; i < trace->count; i++) {
        const struct operation *each = &trace->operations[i];
        if (each->size == 0) {
            rival->give(blocks[each->block], streams[each->stream]);
            rival_go_on();
            continue;
        }
        blocks[each->block] = rival->take(each->size, streams[each->stream]);
        if (blocks[each->block] == NULL)
            bench_fail("%s has no room for %zu bytes (operation %zu)", rival->name, each->size, i);
    }
}

static void measure(const struct rival *rival, const struct trace *trace, void **blocks,
                    void *const *streams, size_t repeats)
{
    double cpu[REPEATS_MAX], real[REPEATS_MAX];
    play(rival, trace, blocks, streams);
    double requested = (double)trace->requested;
    double reserved = (double)rival_reserved();
    for (size_t i = 0; i < repeats; i++) {
        double began = bench_nanoseconds(CLOCK_MONOTONIC);
        double busy = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        play(rival, trace, blocks, streams);
        cpu[i] = (bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - busy) / (double)trace->pairs;
        real[i] = (bench_nanoseconds(CLOCK_MONOTONIC) - began) / (double)trace->pairs;
    }
    printf("trace.pairs %zu\ntrace.requested %.0f\n", trace->pairs, requested);
    if (reserved > 0) {
        printf("trace.reserved %.0f\ntrace.ratio %.4f\n", reserved, reserved / requested);
        printf("trace.again %.4f\n", (double)rival_reserved() / requested);
    }
    printf("trace.pair %.4f\n", bench_least(cpu, repeats));
    printf("trace.real %.4f\n", bench_least(real, repeats));
}

int main(int argc, char **argv)
{
    size_t repeats = (size_t)bench_number(argc, argv, "--repeats", 5);
    size_t count = (size_t)bench_number(argc, argv, "--count", 0);
    if (repeats == 0 || repeats > REPEATS_MAX)
        bench_fail("usage: see the head of replay_trace.c");
    bench_pin((size_t)bench_number(argc, argv, "--cpu", 0));
    struct trace trace = read_trace(bench_argument(argc, argv, "--trace", NULL));
    check(&trace);
    const struct rival *rival = rival_open(argc, argv);
    void **blocks = calloc(trace.blocks, sizeof *blocks);
    void **streams = calloc(trace.streams, sizeof *streams);
    if (blocks == NULL || streams == NULL)
        bench_fail("no memory for the trace");
    for (uint32_t i = 0; i < trace.streams; i++)
        streams[i] = rival_stream(i);
    for (size_t i = 0; i < count; i++)
        play(rival, &trace, blocks, streams);
    if (count == 0)
        measure(rival, &trace, blocks, streams, repeats);
    free(blocks);
    free(streams);
    free(trace.operations);
    return 0;
}
