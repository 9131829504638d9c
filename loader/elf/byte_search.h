/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Searches bytes for several texts in one pass, however many there are. The caller owns the
 * search and the texts to which it points; searching only reads them, so any number of threads
 * may share one. Nothing is allocated, and nothing outside the given bytes is read.
 */
#ifndef HOMEFREE_LOADER_ELF_BYTE_SEARCH_H
#define HOMEFREE_LOADER_ELF_BYTE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#define HF_SEARCH_MAX 12 /* texts. Few, because routing runs on stacks of 16 KiB */

struct hf_search {
    size_t count;
    struct {
        const char *bytes;
        size_t length, anchor; /* offset of its anchor */
    } texts[HF_SEARCH_MAX];
    /* Two bytes at a fixed distance. All of the texts that have the same ones are looked for by one
     * comparison. */
    struct {
        uint8_t first, second;
        uint32_t texts; /* those that it stands for, a bit for each */
    } anchors[HF_SEARCH_MAX];
    size_t anchors_count;
};

/* Texts are numbered from 0 and have at least eight bytes each. Result: 0, -EINVAL if one is
 * shorter, or -E2BIG for more than HF_SEARCH_MAX. */
int hf_search_prepare(struct hf_search *search, const char *const *texts, const size_t *lengths,
                      size_t count);

/* Returns the bits of those texts of `wanted` that occur. */
uint32_t hf_search_in(const struct hf_search *search, const void *bytes, size_t size,
                      uint32_t wanted);

#endif
