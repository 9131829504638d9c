/*
 * A seed of the target `live`: a small shared object that looks like the copy of libhomefree that
 * is the heap, with one stub and one foreign allocator, the dynamic linker's lists, and slots of
 * functions that allocate and free. seeds.py puts it where it would be loaded.
 */
#include "alloc/heap/instance.h"
#include "loader/record/live_state.h"

#include <stddef.h>

extern void *malloc(size_t size);
extern void free(void *block);

struct hf_instance hf_instance_record = {
    .abi = HF_INSTANCE_ABI, .state = HF_INSTANCE_HEAP, .region_size = 1 << 20};

static uint64_t route = 1;
static void *originals[2] = {(void *)&malloc, (void *)&free};
static void *stubs[2] = {originals, stubs};
static struct hf_live_stubs stub_table = {stubs, 8, originals, 8, 0, 2, 1};

static const char name[] = "jemalloc";
static struct {
    const char *name;
    const void *map, *path;
    uint32_t form;
} entries[2] = {{NULL, NULL, NULL, 0}, {name, NULL, name, 1}};
static const uint8_t states[2] = {0, 1};
static uint64_t pages[2] = {1, 2}; /* what follows counts, too */
static struct hf_live_foreign foreign_table = {
    .entries = entries,
    .states = states,
    .count = 2,
    .known = 1,
    .entry_size = sizeof entries[0],
    .entry_name = 0,
    .entry_map = 8,
    .entry_path = 16,
    .entry_form = 24,
    .pages = pages,
    .pages_count = 512,
    .leaf_shift = 30,
    .page_shift = 12,
};

extern struct hf_live_state hf_live_state;
struct hf_live_state hf_live_state = {
    .magic = HF_LIVE_MAGIC,
    .version = HF_LIVE_VERSION,
    .size = sizeof hf_live_state,
    .route = &route,
    .instance_state = offsetof(struct hf_instance, state),
    .instance_is_heap = HF_INSTANCE_HEAP,
    .instance_region = offsetof(struct hf_instance, region_size),
    .stubs = &stub_table,
    .foreign = &foreign_table,
};

void *work(void);
void *work(void)
{
    free(malloc(pages[0]));
    return entries;
}
