/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guard_pages.h. Owns the number of mappings made.
 */
#include "alloc/spans/guard_pages.h"

#include "alloc/heap/region.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

unsigned hf_hardened;
size_t hf_page_size;

/* Linux 6.13: without a mapping of its own for each. Elsewhere there are so many at most, because a
 * process can have about 65000 mappings. */
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103, MAPPINGS = 16000 };
static bool without_mappings;
static int mapped; /* atomic */

void hf_hardened_start(unsigned parts)
{
    hf_hardened = parts | HF_HARDENED_GUARDS;
    hf_page_size = (size_t)getauxval(AT_PAGESZ);
    without_mappings = madvise(NULL, 0, GUARD_INSTALL) == 0;
}

size_t hf_guard_page(void)
{
    enum { MOST = 16 << 10 };
    return hf_hardened_has(HF_HARDENED_PAGES) && hf_page_size <= MOST ? hf_page_size : 0;
}

/* Locked memory cannot be without mappings, and stays as it is. */
void hf_guard_pages_close(char *at, size_t size)
{
    if (HF_LIKELY(without_mappings) && HF_LIKELY(madvise(at, size, GUARD_INSTALL) == 0))
        return;
    if (without_mappings || __atomic_add_fetch(&mapped, 1, __ATOMIC_RELAXED) > MAPPINGS ||
        hf_region_map(at, size, PROT_NONE, MAP_FIXED) == MAP_FAILED)
        (void)madvise(at, size, MADV_DONTNEED);
}

/* Where a sandbox forbids it from now on, with fresh pages. */
bool hf_guard_pages_open(char *at, size_t size)
{
    if (HF_LIKELY(without_mappings) && HF_LIKELY(madvise(at, size, GUARD_REMOVE) == 0))
        return true;
    if (without_mappings)
        (void)hf_region_map(at, size, PROT_NONE, MAP_FIXED);
    else
        __atomic_sub_fetch(&mapped, 1, __ATOMIC_RELAXED);
    return mprotect(at, size, PROT_READ | PROT_WRITE) == 0;
}

bool hf_guard_pages_clear(char *at, size_t size)
{
    if (HF_LIKELY(madvise(at, size, MADV_DONTNEED) == 0))
        return true;
    memset(at, 0, size); /* locked, or a sandbox forbids it */
    return false;
}
