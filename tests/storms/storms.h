/*
 * Storms: what can happen at once in a process, all of it at once, for as long as is wanted. Each
 * is a function in a file of its own. They are one program and, for a process of CPython, one
 * shared object (storms.c).
 *
 * A storm checks what it sees and ends the process at the first thing that is wrong. It counts what
 * it does. Nothing waits for a time but the main thread, which ends the storm.
 */
#ifndef HOMEFREE_TESTS_STORMS_STORMS_H
#define HOMEFREE_TESTS_STORMS_STORMS_H

#include "../loader/modules/user.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a storm did. */
struct figures {
    atomic_ulong operations; /* blocks that were allocated, resized or freed */
    atomic_ulong loads, forks, routes, namespaces, libraries, signals, refusals;
};
extern struct figures figures;

/* The modules (loader/modules/user.c) that the storms load. */
extern const char *const *modules;
extern unsigned module_count;

/* Whether the time is over. */
extern atomic_bool storm_over;

/* Ends the process. */
_Noreturn void storm_failed(const char *what, const char *detail);
#define STORM_MUST(condition) ((condition) ? (void)0 : storm_failed(#condition, "failed"))

/* ---- threads ---- */

enum { CROWD_MAX = 64 };

/* Numbers that look random; each thread has its own state, never 0. */
static inline uint32_t storm_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(2685821657736338717)) >> 32);
}

/* Runs work(number) in `count` threads, with numbers from 1 on, while the time lasts. */
void storm_threads(unsigned count, void (*work)(unsigned number));

/* Waits until the time is over. */
void storm_wait(void);

/* ---- blocks that threads pass on ---- */

/* A block says how large it is, and its bytes follow from that. Any allocator may have made it. */
void storm_block_fill(void *block, size_t size);
/* Ends the process if a block is not as it was filled. Result: its size. */
size_t storm_block_check(const void *block);
enum { SMALLEST_BLOCK = 16 };

/* Allocates a block, passes it on, takes one that somebody else passed on, looks at it, sometimes
 * resizes it, and frees it; by one of many functions each. module: one more that does this; may be
 * NULL. */
void storm_exchange(uint64_t *random, const struct user *module);
/* Frees what was passed on and not taken. Only when no other thread does any of this. */
void storm_blocks_end(void);
/* In a forked child: every block that was passed on is as it was filled, and can be freed. */
void storm_blocks_in_child(void);

/* Whether malloc() allocates from the heap: homefree is preloaded. */
bool heap_serves_all(void);

/* Loads a module, uses it as storm_exchange() does, and unloads it. */
void storm_load(uint64_t *random, const char *path);

/* ---- the storms ---- */

void storm_races(void);
void storm_crowd(void);
void storm_libraries(void);
void storm_signals(void);
void storm_limits(void);

/* The other end of storm_limits(): what a new process under a limit does. */
void storm_limited(void);
/* The program to be started for that; NULL in a process of CPython. */
extern const char *storm_program;

#endif
