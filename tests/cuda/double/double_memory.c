/*
 * The double of CUDA: addresses, and the memory behind them. See double.h.
 *
 * `ranges` is sorted by address, and its ranges do not overlap. A device's addresses stay PROT_NONE
 * for ever; the memory behind them is mapped elsewhere, and goes back to the system when its last
 * handle and mapping are gone.
 */
#include "control.h"
#include "double.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANGES_MAX = 65536, RESERVED_MAX = 8192, PHYSICAL_MAX = 65536, PAGE = 4096 };

static struct double_range ranges[RANGES_MAX];
static size_t range_count;
static struct {
    uintptr_t start;
    size_t size;
} reserved[RESERVED_MAX];
static size_t reserved_count;
static struct double_physical physicals[PHYSICAL_MAX];

static size_t up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* ---- the tables ---- */

/* The first range that ends behind an address. */
static size_t index_of(uintptr_t at)
{
    size_t first = 0, end = range_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (ranges[middle].start + ranges[middle].size <= at)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct double_range *double_range_of(uintptr_t at)
{
    const size_t i = index_of(at);
    return i < range_count && ranges[i].start <= at ? &ranges[i] : NULL;
}

static bool is_free(uintptr_t at, size_t size)
{
    const size_t i = index_of(at);
    return i == range_count || ranges[i].start >= at + size;
}

static void add_range(const struct double_range *range)
{
    const size_t i = index_of(range->start);
    if (range_count == RANGES_MAX || !is_free(range->start, range->size))
        double_broken("too many ranges, or they overlap");
    memmove(&ranges[i + 1], &ranges[i], (range_count - i) * sizeof ranges[0]);
    ranges[i] = *range;
    range_count++;
}

static void drop_range(struct double_range *range)
{
    const size_t i = (size_t)(range - ranges);
    memmove(range, range + 1, (range_count - i - 1) * sizeof ranges[0]);
    range_count--;
}

/* A live range that starts there, of one of these kinds. */
static struct double_range *starts_at(uintptr_t at, enum double_kind first, enum double_kind last)
{
    struct double_range *range = double_range_of(at);
    return range != NULL && range->start == at && range->kind >= first && range->kind <= last
               ? range
               : NULL;
}

/* All addresses of devices, in the order in which they were handed out. */
static uintptr_t devices, next_of_devices;
static size_t devices_size;
static bool ignores_alignment;

bool double_is_devices(uintptr_t at)
{
    return devices != 0 && at - devices < devices_size;
}

/* As much as there is: valgrind has little. */
static void reserve_for_devices(void)
{
    const size_t most = (size_t)1 << 42, least = (size_t)1 << 34;
    void *start = MAP_FAILED;
    for (size_t size = most; start == MAP_FAILED && size >= least; size /= 2) {
        start = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        devices_size = size;
    }
    if (start == MAP_FAILED)
        double_broken("there is no address space");
    devices = next_of_devices = (uintptr_t)start;
}

static uintptr_t addresses_of_devices(size_t size, size_t alignment)
{
    if (devices == 0)
        reserve_for_devices();
    if (alignment < GRANULE)
        alignment = GRANULE;
    const uintptr_t at = up(next_of_devices, alignment);
    if (size > devices_size || at - devices > devices_size - size)
        return 0;
    next_of_devices = at + size;
    return at;
}

/* Memory of the host that was never handed out before. */
static uintptr_t host_memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED ? (uintptr_t)at : 0;
}

static void forbid_touching(uintptr_t at, size_t size)
{
    (void)madvise((void *)at, up(size, PAGE), MADV_DONTNEED);
    (void)mprotect((void *)at, up(size, PAGE), PROT_NONE);
}

/* ---- memory ---- */

struct double_physical *double_physical_of(unsigned long long handle)
{
    const uintptr_t offset = (uintptr_t)handle - (uintptr_t)physicals;
    if (offset >= sizeof physicals || offset % sizeof physicals[0] != 0)
        return NULL;
    struct double_physical *physical = &physicals[offset / sizeof physicals[0]];
    return physical->bytes != NULL && physical->handles > 0 ? physical : NULL;
}

static int take(int device, size_t size)
{
    struct double_device *of = &double_device[device];
    if (size > of->memory || of->used > of->memory - size)
        return OUT_OF_MEMORY;
    of->used += size;
    return 0;
}

static struct double_physical *free_physical(void)
{
    static size_t next;
    for (size_t i = 0; i < PHYSICAL_MAX; i++) {
        struct double_physical *physical = &physicals[next++ % PHYSICAL_MAX];
        if (physical->bytes == NULL)
            return physical;
    }
    double_broken("too much memory");
}

int double_create(struct double_physical **out, int device, size_t size)
{
    if (size == 0 || size % GRANULE != 0)
        return INVALID_VALUE;
    const int error = take(device, size);
    if (error != 0)
        return error;
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) {
        double_device[device].used -= size;
        return OUT_OF_MEMORY;
    }
    *out = free_physical();
    **out = (struct double_physical){bytes, size, device, 1, 0};
    return 0;
}

static void end_unless_used(struct double_physical *physical)
{
    if (physical->handles > 0 || physical->mappings > 0)
        return;
    (void)munmap(physical->bytes, physical->size);
    double_device[physical->device].used -= physical->size;
    physical->bytes = NULL;
}

int double_release(struct double_physical *physical)
{
    physical->handles--;
    end_unless_used(physical);
    return 0;
}

/* ---- reserved addresses and mappings ---- */

int double_reserve(uintptr_t *at, size_t size, size_t alignment)
{
    if (size == 0 || size % GRANULE != 0 || (alignment & (alignment - 1)) != 0)
        return INVALID_VALUE;
    uintptr_t start = addresses_of_devices(size, ignores_alignment ? 0 : alignment);
    if (ignores_alignment && alignment > GRANULE && start % alignment == 0)
        start = addresses_of_devices(size, 0);
    if (start == 0)
        return OUT_OF_MEMORY;
    if (reserved_count == RESERVED_MAX)
        double_broken("too many reserved ranges");
    reserved[reserved_count].start = start;
    reserved[reserved_count++].size = size;
    *at = start;
    return 0;
}

int double_unreserve(uintptr_t at, size_t size)
{
    for (size_t i = 0; i < reserved_count; i++)
        if (reserved[i].start == at && reserved[i].size == size && is_free(at, size)) {
            reserved[i] = reserved[--reserved_count];
            return 0;
        }
    return INVALID_VALUE;
}

int double_map(uintptr_t at, size_t size, size_t offset, struct double_physical *physical)
{
    bool inside = false;
    for (size_t i = 0; i < reserved_count; i++)
        inside |= at >= reserved[i].start && size <= reserved[i].size &&
                  at - reserved[i].start <= reserved[i].size - size;
    if (physical == NULL || !inside || size == 0 || size % GRANULE != 0 || at % GRANULE != 0 ||
        offset != 0 || size != physical->size || !is_free(at, size))
        return INVALID_VALUE;
    physical->mappings++;
    add_range(&(struct double_range){.start = at,
                                     .size = size,
                                     .kind = MAPPED,
                                     .device = physical->device,
                                     .physical = physical});
    return 0;
}

/* Whether whole mappings, without a gap, make up a range. */
static bool is_mapped_whole(uintptr_t at, size_t size)
{
    const uintptr_t end = at + size;
    while (at < end) {
        const struct double_range *range = starts_at(at, MAPPED, MAPPED);
        if (range == NULL || range->size > end - at)
            return false;
        at += range->size;
    }
    return true;
}

int double_unmap(uintptr_t at, size_t size)
{
    if (size == 0 || !is_mapped_whole(at, size))
        return INVALID_VALUE;
    for (const uintptr_t end = at + size; at < end;) {
        struct double_range *range = double_range_of(at);
        struct double_physical *physical = range->physical;
        at += range->size;
        drop_range(range);
        physical->mappings--;
        end_unless_used(physical);
    }
    return 0;
}

int double_set_access(uintptr_t at, size_t size, int device)
{
    if (size == 0 || !is_mapped_whole(at, size))
        return INVALID_VALUE;
    for (const uintptr_t end = at + size; at < end;) {
        struct double_range *range = double_range_of(at);
        range->is_accessible |= range->device == device;
        at += range->size;
    }
    return 0;
}

/* ---- blocks ---- */

int double_allocate(uintptr_t *at, size_t size, int device, enum double_kind kind)
{
    struct double_physical *physical;
    if (size == 0)
        return INVALID_VALUE;
    if (size > SIZE_MAX / 4)
        return OUT_OF_MEMORY;
    const int error = double_create(&physical, device, up(size, GRANULE));
    if (error != 0)
        return error;
    const uintptr_t start = kind == MANAGED ? host_memory(up(size, PAGE))
                                            : addresses_of_devices(physical->size, GRANULE);
    if (start == 0) {
        (void)double_release(physical);
        return OUT_OF_MEMORY;
    }
    add_range(&(struct double_range){.start = start,
                                     .size = size,
                                     .kind = kind,
                                     .device = device,
                                     .is_accessible = true,
                                     .physical = physical});
    *at = start;
    return 0;
}

static void end_block(struct double_range *range)
{
    struct double_physical *physical = range->physical;
    if (range->kind == MANAGED)
        forbid_touching(range->start, range->size);
    drop_range(range);
    (void)double_release(physical);
}

int double_free(uintptr_t at)
{
    struct double_range *range = starts_at(at, BLOCK, MANAGED);
    if (range == NULL || range->is_freed)
        return INVALID_VALUE;
    end_block(range);
    return 0;
}

int double_free_pooled(uintptr_t at)
{
    struct double_range *range = starts_at(at, POOLED, POOLED);
    if (range == NULL)
        return INVALID_VALUE;
    end_block(range);
    return 0;
}

void double_free_all_of(int device)
{
    for (size_t i = range_count; i-- > 0;) {
        struct double_range *range = &ranges[i];
        if (range->device != device || range->physical == NULL)
            continue;
        if (range->kind == MAPPED)
            (void)double_unmap(range->start, range->size);
        else
            end_block(range);
    }
}

/* ---- the host's memory ---- */

int double_host_allocate(void **out, size_t size, unsigned flags)
{
    if (size == 0)
        return INVALID_VALUE;
    if (size > SIZE_MAX / 4)
        return OUT_OF_MEMORY;
    const uintptr_t at = host_memory(up(size, PAGE));
    if (at == 0)
        return OUT_OF_MEMORY;
    add_range(&(struct double_range){
        .start = at, .size = size, .kind = HOST_BLOCK, .device = -1, .flags = flags});
    *out = (void *)at;
    return 0;
}

int double_host_free(void *at)
{
    struct double_range *range = starts_at((uintptr_t)at, HOST_BLOCK, HOST_BLOCK);
    if (range == NULL)
        return INVALID_VALUE;
    forbid_touching(range->start, range->size);
    drop_range(range);
    return 0;
}

static bool is_there(uintptr_t at, size_t size)
{
    unsigned char resident;
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    for (uintptr_t page = at / page_size * page_size; page < at + size; page += page_size)
        if (mincore((void *)page, page_size, &resident) != 0)
            return false;
    return true;
}

int double_register(void *at, size_t size, unsigned flags)
{
    const uintptr_t start = (uintptr_t)at;
    if (at == NULL || size == 0 || start + size < start || !is_there(start, size))
        return INVALID_VALUE;
    if (!is_free(start, size))
        return ALREADY_REGISTERED;
    add_range(&(struct double_range){
        .start = start, .size = size, .kind = REGISTERED, .device = -1, .flags = flags});
    return 0;
}

int double_unregister(void *at)
{
    struct double_range *range = starts_at((uintptr_t)at, REGISTERED, REGISTERED);
    if (range == NULL)
        return NOT_REGISTERED;
    drop_range(range);
    return 0;
}

/* ---- control.h ---- */

void double_ignore_alignment(int ignore)
{
    double_lock();
    ignores_alignment = ignore != 0;
    double_unlock();
}

size_t double_leaks(struct double_live *out)
{
    struct double_live live = {.reserved = 0};
    double_lock();
    for (size_t i = 0; i < range_count; i++) {
        const enum double_kind kind = ranges[i].kind;
        live.blocks += kind == BLOCK || kind == POOLED || kind == MANAGED;
        live.mapped += kind == MAPPED;
        live.host += kind == HOST_BLOCK;
        live.registered += kind == REGISTERED;
    }
    for (size_t i = 0; i < PHYSICAL_MAX; i++) {
        const struct double_physical *physical = &physicals[i];
        /* A block holds the handle of its own memory. */
        live.handles += physical->bytes != NULL ? physical->handles : 0;
    }
    live.handles -= live.blocks;
    live.reserved = reserved_count;
    double_count_streams(&live);
    live.graphs = double_graphs;
    double_unlock();
    if (out != NULL)
        *out = live;
    return live.blocks + live.reserved + live.mapped + live.handles + live.host + live.registered +
           live.streams + live.events + live.graphs;
}
