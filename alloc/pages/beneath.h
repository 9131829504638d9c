/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies beneath jemalloc: the functions of libc that it calls and that must be ours. Its
 * archive calls them by our names (names.txt), so that nothing of it is modified.
 *
 * Addresses for its books come from the region. Its thread data belong to seats, not to threads:
 * whoever calls jemalloc sits on one meanwhile. So a thread costs nothing, and nothing is left of
 * it when it ends or is not there in a forked child; and there is neither thread-local storage,
 * for which a library that is loaded late may find no room, nor a pthread key.
 */
#ifndef HOMEFREE_ALLOC_PAGES_BENEATH_H
#define HOMEFREE_ALLOC_PAGES_BENEATH_H

#include <stdbool.h>
#include <stdint.h>

struct hf_beneath_seat;

/* Around each call into jemalloc. Inside the gate. Nests: a signal handler sits elsewhere. */
struct hf_beneath_seat *hf_beneath_sit(void);
void hf_beneath_rise(struct hf_beneath_seat *before);

/* Around jemalloc's start, during which it would end the process if it got no memory: what it takes
 * for its books, in advance. False if there is no memory. */
bool hf_beneath_reserve(void);
void hf_beneath_release(void);

/* Once jemalloc has started on one seat, the others get copies of its data; false if there is no
 * memory. jemalloc would make them itself, in a frame of 2 KiB that every call would have, and end
 * the process if it could not. */
bool hf_beneath_share(void *(*copy)(const void *data));

/* In a forked child, whose gate is closed: a distribution's jemalloc has thread data in each
 * thread, and a list of them, which it makes anew. */
void hf_beneath_reset_in_child(void);

/* The last addresses that this call into jemalloc got from the region: pages that nobody has used
 * yet, and zero. Between the two calls above. */
void hf_beneath_set_fresh(const void *at);
const void *hf_beneath_fresh(void);

/* Bytes of jemalloc's books that are resident. */
uint64_t hf_beneath_resident(void);

#endif
