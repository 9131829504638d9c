/*
 * A seed of the target `live`: a small shared object that looks like the instance of libhomefree
 * that is the heap, with one stub and one foreign allocator, the dynamic linker's lists, and slots
 * of functions that allocate and free. seeds.py puts it where it would be loaded.
 */
#include "alloc/heap/instance.h"
#include "loader/record/live_state.h"

#include <stddef.h>

extern void *malloc(size_t size);
extern void free(void *block);

struct hf_instance hf_instance_record = {
    .abi = HF_INSTANCE_ABI, .state = HF_INSTANCE_HEAP, .region_size = 1 << 20};

static uint64_t route = 1;
static void *originals[2][2] = {{(void *)&malloc, originals}, {(void *)&free, originals[1]}};
static struct hf_live_stubs stub_table = {originals, 16, 0, 8, 2, 1};

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

/* A span and a large block, each in a unit. */
static const uint64_t region[2] = {1 << 20, 2 << 12}, sizes[1] = {64};
static const struct {
    uint32_t step;
    uint8_t units;
} classes[1] = {{64, 1}};
static const struct {
    uint32_t unit;
    uint16_t blocks;
    uint8_t before, unused;
    uint8_t states[4];
} span = {0, 3, 1, 0, {4, 2, 0, 2}};
static const uint64_t large[2] = {(1 << 20) + (1 << 12) + 3, 5000};
static const struct {
    const void *owner, *state;
    uint32_t first;
    uint8_t class, waits;
} heap_entries[2] = {{&span, span.states, (1 << 20) - 64, 0, 0}, {&large, large, 0, 0, 0}};
static const uint8_t *heap_table = (const uint8_t *)heap_entries - 256 * sizeof heap_entries[0];
static struct hf_live_blocks block_table = {
    .region = region,
    .entries = &heap_table,
    .sizes = sizes,
    .classes = classes,
    .large = &large,
    .class_count = 1,
    .class_size = sizeof classes[0],
    .class_units = 4,
    .unit_shift = 12,
    .entry_size = sizeof heap_entries[0],
    .entry_state = 8,
    .entry_first = 16,
    .entry_class = 20,
    .entry_waits = 21,
    .span_size = 8,
    .span_blocks = 4,
    .span_before = 6,
    .live = 2,
    .sampled = 6,
    .limited = 128,
    .large_size = 8,
    .large_states = 3,
    .large_live = 2,
    .large_least = 1,
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
    .blocks = &block_table,
};

void *work(void);
void *work(void)
{
    free(malloc(pages[0]));
    return entries;
}
