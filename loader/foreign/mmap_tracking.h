/*
 * Whose pages are whose: what the stubs of mmap(2) and its kind tell, kept in pagemap.h's map.
 *
 * An object that may hold an allocator is a candidate: a routing pass says so (foreign
 * known_allocators.h), and has looked for symbols of known allocators in it by then. Its mappings
 * of private anonymous memory are recorded if they were found. Where nothing was, its file is
 * searched for the strings that known allocators carry even when stripped, and they decide when it
 * first maps such memory.
 *
 * An object's constructors run before a pass sees it. What they map is recorded under a number that
 * is the object's alone, and forgotten if the pass finds no candidate.
 *
 * Everything but what is for passes may be called from any thread and in signal handlers: no lock,
 * no allocation, and errno stays. Without _dl_find_object (glibc before 2.35) asking whose a call
 * is takes a lock, so nothing is recorded there.
 */
#ifndef HOMEFREE_MMAP_TRACKING_H
#define HOMEFREE_MMAP_TRACKING_H

#include "alloc/base/dynlink.h"
#include "loader/foreign/known_allocators.h"

#include <sys/types.h>

/* ---- for routing passes ---- */

/* What is known of a candidate: the number of the foreign allocator inside it; 0: not known yet.
 * Called under the loader's lock. */
void hf_tracking_candidate(const struct link_map *map, unsigned number);

/* Whether an object has been looked at: it is not again when a pass begins anew. */
bool hf_tracking_is_candidate(const struct link_map *map);

/* The number under which pages are recorded of an object that no pass has seen yet; 0 where none
 * are. A foreign allocator that is found in it is published under this number. */
unsigned hf_tracking_number(const struct link_map *map);

/* A pass is over: what has mapped memory meanwhile and is no candidate is none. */
void hf_tracking_settle(void);

/* The known allocators whose strings an object's file holds; all false where it is not stripped,
 * and so its symbols tell. */
void hf_tracking_search(const struct link_map *map, bool named[HF_ALLOCATOR_COUNT]);

/* Objects were unloaded: forgets those that are no longer there, and their pages. */
void hf_tracking_forget(void);

/* Registers the fork handler. Called once, by the library's constructor (init.c). */
void hf_tracking_start(void);

/* ---- for stubs ---- */

/* Around each call of dlopen(): an object that is new to all passes may run its constructors. What
 * it maps in them is recorded until a pass has looked at it. */
void hf_tracking_loading(bool begins);

/* After mmap(2). Result: at, MAP_FAILED too. */
void *hf_tracking_mapped(void *at, size_t size, int flags, const void *caller);

/* Whether an address range needs hf_tracking_unmapping(). */
bool hf_tracking_has(const void *address, size_t size);
/* Before munmap(2); the result is for hf_tracking_unmap_failed(), if that fails. */
unsigned hf_tracking_unmapping(void *address, size_t size);
long hf_tracking_unmap_failed(void *address, size_t size, unsigned number, long result);

/* Around mremap(2). */
struct hf_tracking_move {
    char *from;
    size_t size, new_size;
    unsigned number;
    bool may_move;
};
struct hf_tracking_move hf_tracking_moving(void *address, size_t size, size_t new_size, int flags);
void *hf_tracking_moved(const struct hf_tracking_move *move, void *at);

/* After sbrk(2). Result: before. */
void *hf_tracking_break(void *before, intptr_t increment, const void *caller);
/* Somebody but libc moves the program break. */
void hf_tracking_break_is_shared(void);

#endif
