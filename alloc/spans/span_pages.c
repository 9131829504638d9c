/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of spans on which nothing is live, though the span has live blocks elsewhere. Owns nothing.
 */
#include "alloc/spans/between.h"
#include "alloc/spans/guard_pages.h"
#include "alloc/spans/vector.h"

#include <sys/auxv.h>
#include <sys/mman.h>

/* One bit a page. */
static uint64_t pages_between(size_t first, size_t last)
{
    return UINT64_MAX >> (63 - last) & UINT64_MAX << first;
}

/* Those that hold a byte of a block that is not free: one of another thread's may be, soon. */
static uint64_t pages_in_use(struct hf_span *span, size_t page)
{
    const uint8_t *states = hf_span_states(span);
    const size_t size = hf_classes[span->class].size;
    const char *start = hf_span_start(span);
    uint64_t used = 0;
    for (uint32_t at = 0; at < span->before + (uint32_t)span->blocks; at += HF_GROUP) {
        uint64_t mask =
            ~(hf_bytes_equal(states + at, HF_FREE) | hf_bytes_equal(states + at, HF_NONE));
        for (; mask != 0; mask &= mask - 1) {
            const uint32_t index = at + (uint32_t)__builtin_ctzll(mask);
            const size_t offset = (size_t)(hf_span_block(span, index) - start);
            used |= pages_between(offset / page, (offset + size - 1) / page);
        }
    }
    return used;
}

static size_t give(struct hf_span *span, size_t page)
{
    const size_t count = hf_span_bytes(span) / page;
    uint64_t unused = pages_between(0, count - 1) & ~pages_in_use(span, page);
    size_t given = 0;
    while (unused != 0) {
        const size_t first = (size_t)__builtin_ctzll(unused);
        const uint64_t rest = ~(unused >> first);
        const size_t pages = rest != 0 ? (size_t)__builtin_ctzll(rest) : 64;
        (void)madvise(hf_span_start(span) + first * page, pages * page, MADV_DONTNEED);
        unused &= ~pages_between(first, first + pages - 1);
        given += pages * page;
    }
    return given;
}

size_t hf_spans_give_pages(struct hf_local *local, size_t most)
{
    enum { PAGES_MOST = 64 };
    _Static_assert(HF_UNITS_MOST * HF_UNIT <= PAGES_MOST * (size_t)4096, "one word has them");
    const size_t page = getauxval(AT_PAGESZ);
    size_t given = 0;
    if (HF_UNLIKELY(hf_hardened != 0) || page > HF_UNIT)
        return 0;
    for (struct hf_span *span = local->owned; span != NULL && most != 0;
         span = span->next_owned, most--)
        if (span->class != HF_CLASS_NOTHING &&
            (size_t)span->free * hf_classes[span->class].size >= page)
            given += give(span, page);
    return given;
}
