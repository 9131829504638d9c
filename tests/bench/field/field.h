/*
 * What the programs of the field benchmark share. Each is one source file that defines
 * field_work(). It is built into two modules, one linked with the shim and one plain; the program
 * `field` (field.c) loads one of them and measures the call. Nothing here is shared between
 * processes.
 */
#ifndef HOMEFREE_TESTS_BENCH_FIELD_FIELD_H
#define HOMEFREE_TESTS_BENCH_FIELD_FIELD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FIELD_API __attribute__((visibility("default")))

struct field_call {
    double scale;        /* 1 is the work that is measured; tests run a small part of it */
    size_t threads;      /* 0: as many as the program usually has */
    const char *what;    /* for programs that do one of several things */
    const char *program; /* the running program, and a module that does nothing: for the one */
    const char *nothing; /* that starts processes */
};

/* The whole work of a program. Returns with what it kept freed, unless keeping it is the point. */
typedef void field_work_function(const struct field_call *call);
FIELD_API field_work_function field_work;

/* One block of the allocator that the module uses; the caller frees it with field_give(). */
typedef void *field_take_function(size_t size);
FIELD_API field_take_function field_take;
typedef void field_give_function(void *block);
FIELD_API field_give_function field_give;

/* A little work, such as an idle server still does: allocators that give memory back over time do
 * so when they are called. */
typedef void field_idle_function(void);
FIELD_API field_idle_function field_idle;

/* Calls work(i, argument) in `count` threads at once and waits for all of them. */
void field_in_threads(size_t count, void (*work)(size_t index, void *argument), void *argument);

/* `count` of the measured work at this call's scale, at least 1. */
static inline size_t field_times(const struct field_call *call, size_t count)
{
    size_t scaled = (size_t)((double)count * call->scale);
    return scaled != 0 ? scaled : 1;
}

static inline size_t field_threads(const struct field_call *call, size_t usual)
{
    return call->threads != 0 ? call->threads : usual;
}

/* Random numbers (xorshift); a state must not be 0. */
static inline uint64_t field_seed(size_t index)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (index + 1);
}

static inline uint64_t field_draw(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* A size from 2^low up to 2^high, each power of two as likely as the next: most blocks of real
 * programs are small. */
static inline size_t field_size(uint64_t number, unsigned low, unsigned high)
{
    size_t power = (size_t)1 << (low + (number >> 40) % (high - low));
    return power + (number >> 16) % power;
}

/* The block, written to as its user would do first; the process ends if there is none. */
static inline void *field_used(void *block)
{
    if (block == NULL)
        abort();
    *(volatile char *)block = 1;
    return block;
}

/* The same for blocks of whole pages: each page is written to. */
static inline void *field_filled(void *block, size_t size)
{
    field_used(block);
    for (size_t at = 0; at < size; at += 4096)
        ((volatile char *)block)[at] = 1;
    return block;
}

#ifdef __cplusplus
}
#endif

#endif
