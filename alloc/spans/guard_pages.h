/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What HOMEFREE_CONF=checks:hardened and checks:full consist of (hardened.h), and their pages that
 * nobody may touch.
 * guard_pages.c owns hf_hardened, written once, by hf_hardened_start(). Inside the gate.
 */
#ifndef HOMEFREE_ALLOC_SPANS_GUARD_PAGES_H
#define HOMEFREE_ALLOC_SPANS_GUARD_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* The option `hardened` is a sum of those that checks:hardened can do without. */
enum hf_hardened_part {
    HF_HARDENED_PLACES = 1,     /* random ones */
    HF_HARDENED_NEIGHBOURS = 2, /* their guards are looked at */
    HF_HARDENED_CLEAR = 4,      /* free blocks, and looking whether they still are */
    HF_HARDENED_WAIT = 8,       /* freed blocks do */
    HF_HARDENED_PAGES = 16,     /* that nobody may touch */
    HF_HARDENED_SCATTER = 32,   /* spans */
    HF_HARDENED_ALL = 63,       /* of these */
    HF_HARDENED_GUARDS = 64     /* always */
};
/* 0 by default. */
extern unsigned hf_hardened __attribute__((visibility("hidden")));
static inline bool hf_hardened_has(enum hf_hardened_part part)
{
    return (hf_hardened & part) != 0;
}

void hf_hardened_start(unsigned parts);

/* The size of a page, and of such a page: 0 if there are none, as where pages are so large that
 * they would take most of a span. */
extern size_t hf_page_size __attribute__((visibility("hidden")));
size_t hf_guard_page(void);

/* Makes whole pages of the region such pages, without memory, or memory again, which is clear;
 * false if nobody may touch them for ever. */
void hf_guard_pages_close(char *at, size_t size);
bool hf_guard_pages_open(char *at, size_t size);

/* Clears whole pages, which then have no memory; false if they still do. */
bool hf_guard_pages_clear(char *at, size_t size);

#endif
