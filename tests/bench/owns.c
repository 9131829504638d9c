/*
 * Measures the ownership test: row 4 of the table.
 *
 *   owns [--threads N]
 *
 * Every test gets another pointer, drawn from blocks of the heap, blocks of libc, the stack and
 * static data in random order; each answer is consumed on its own, and the region's range is read
 * anew each time, as it would be between other calls. The loop itself is part of the figure. Time
 * is each thread's own processor time, so that more threads than processors do not disturb it.
 *
 * Prints nanoseconds a test, the least of the repeats, of the slowest thread: owns.inline for the
 * header's inline function, owns.call for the exported one.
 */
#include "bench.h"

#include <homefree/homefree.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTERS = 1024, ROUNDS = 128, REPEATS = 41, THREADS_MAX = 64 };

static const void *pointers[POINTERS];
static size_t owned;
static bool (*volatile exported)(const void *ptr);
static pthread_barrier_t ready;

struct result {
    size_t index;
    double inlined[REPEATS], called[REPEATS];
};

/* Keeps the compiler from guessing the answer and from holding the range in registers. */
#define CONSUME(answer) __asm__ volatile("" : "+r"(answer) : : "memory")

static double time_inlined(void)
{
    size_t count = 0;
    double began = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < POINTERS; i++) {
            size_t answer = hf_owns(pointers[i]);
            CONSUME(answer);
            count += answer;
        }
    double took = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began;
    if (count != owned * ROUNDS)
        bench_fail("hf_owns, inlined: %zu of %zu answers are true", count, owned * ROUNDS);
    return took / (ROUNDS * POINTERS);
}

static double time_called(void)
{
    bool (*call)(const void *) = exported;
    size_t count = 0;
    double began = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < POINTERS; i++)
            count += call(pointers[i]);
    double took = bench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began;
    if (count != owned * ROUNDS)
        bench_fail("hf_owns, called: %zu of %zu answers are true", count, owned * ROUNDS);
    return took / (ROUNDS * POINTERS);
}

static void *work(void *argument)
{
    struct result *result = argument;
    bench_pin(result->index);
    time_inlined();
    time_called();
    pthread_barrier_wait(&ready);
    for (size_t i = 0; i < REPEATS; i++) {
        result->inlined[i] = time_inlined();
        result->called[i] = time_called();
    }
    return NULL;
}

static uint32_t draw(void)
{
    static uint32_t random = 12345;
    random = random * 1664525 + 1013904223;
    return random >> 8;
}

/* Half of the pointers are the heap's, a quarter libc's, an eighth on the stack, an eighth static.
 */
static void fill_pointers(const char *stack, size_t stack_size)
{
    static char fixed[64];
    for (size_t i = 0; i < POINTERS; i++) {
        uint32_t kind = draw() % 8;
        size_t size = 1 + draw() % 2048;
        if (kind < 4)
            pointers[i] = hf_malloc(size);
        else if (kind < 6)
            pointers[i] = malloc(size);
        else if (kind == 6)
            pointers[i] = stack + size % stack_size;
        else
            pointers[i] = &fixed[size % sizeof fixed];
        if (pointers[i] == NULL)
            bench_fail("no memory");
        owned += kind < 4;
    }
}

int main(int argc, char **argv)
{
    static struct result results[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    size_t threads = (size_t)bench_number(argc, argv, "--threads", 1);
    if (threads == 0 || threads > THREADS_MAX)
        bench_fail("usage: see the head of owns.c");
    bool (*address)(const void *) = hf_owns;
    exported = address;
    char stack[64];
    fill_pointers(stack, sizeof stack);
    pthread_barrier_init(&ready, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        results[i].index = i;
        if (pthread_create(&ids[i], NULL, work, &results[i]) != 0)
            bench_fail("no thread");
    }
    double inlined = 0, called = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        double value = bench_least(results[i].inlined, REPEATS);
        inlined = value > inlined ? value : inlined;
        value = bench_least(results[i].called, REPEATS);
        called = value > called ? value : called;
    }
    printf("owns.inline %.4f\n", inlined);
    printf("owns.call %.4f\n", called);
    return 0;
}
