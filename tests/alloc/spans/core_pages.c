/* Pages straight from the region, in place of alloc/pages. See core.h. */
#include "core.h"

#include "alloc/heap/region.h"
#include "alloc/pages/pages.h"
#include "death.h"

#include <stdint.h>
#include <sys/mman.h>

static size_t taken, left = SIZE_MAX;
static size_t sizes[1 << 16]; /* of what was taken, by its unit */

static size_t *size_at(const void *at)
{
    const size_t unit = ((uintptr_t)at - hf_region.base) >> HF_LG_UNIT;
    must(unit < sizeof sizes / sizeof sizes[0]);
    return &sizes[unit];
}

/* With the spans' lock, as everything here. */
void *hf_pages_take_fresh(size_t size, size_t alignment, bool *fresh)
{
    *fresh = true;
    if (left == 0)
        return NULL;
    void *at = hf_region_map_aligned(size, alignment, PROT_READ | PROT_WRITE);
    if (at == MAP_FAILED)
        return NULL;
    left -= left != SIZE_MAX;
    taken += *size_at(at) = size;
    return at;
}

void *hf_pages_take(size_t size, size_t alignment, bool zeroed)
{
    (void)zeroed; /* it is fresh */
    return hf_pages_take_fresh(size, alignment, &(bool){false});
}

void hf_pages_give(void *at, size_t size)
{
    must(*size_at(at) == size);
    must(hf_region_unmap(at, size) == 0);
    taken -= size;
    *size_at(at) = 0;
}

size_t hf_pages_taken(void)
{
    return taken;
}

size_t core_pages_taken(void)
{
    return taken;
}

void core_pages_left(size_t takes)
{
    left = takes;
}
