/*
 * See guard_pages.h. Owns the number of mappings made.
 */
#include "alloc/spans/guard_pages.h"

#include "alloc/heap/region.h"

#include <sys/auxv.h>
#include <sys/mman.h>

unsigned hf_hardened;
size_t hf_page_size;

void hf_hardened_start(unsigned parts)
{
    hf_hardened = parts | HF_HARDENED_GUARDS;
    hf_page_size = (size_t)getauxval(AT_PAGESZ);
}

/* Linux 6.13: without a mapping of its own for each. Elsewhere there are so many at most, because a
 * process can have about 65000 mappings. */
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103, MAPPINGS = 16000 };
static int mapped; /* atomic */

size_t hf_guard_page(void)
{
    enum { MOST = 16 << 10 };
    return hf_hardened_has(HF_HARDENED_PAGES) && hf_page_size <= MOST ? hf_page_size : 0;
}

void hf_guard_pages_close(char *at, size_t size)
{
    if (madvise(at, size, GUARD_INSTALL) == 0)
        return;
    if (__atomic_add_fetch(&mapped, 1, __ATOMIC_RELAXED) > MAPPINGS ||
        hf_region_map(at, size, PROT_NONE, MAP_FIXED) == MAP_FAILED)
        (void)madvise(at, size, MADV_DONTNEED);
}

void hf_guard_pages_open(char *at, size_t size)
{
    if (madvise(at, size, GUARD_REMOVE) == 0)
        return;
    __atomic_sub_fetch(&mapped, 1, __ATOMIC_RELAXED);
    (void)mprotect(at, size, PROT_READ | PROT_WRITE);
}
