/* Size classes, and the arithmetic by which an address of a span tells its block: all sizes, and
 * every address that a span of each class has. */
#include "core.h"

#include "alloc/heap/fork_gate.h"
#include "alloc/spans/supply.h"
#include "death.h"
#include "suite.h"

START_TEST(sizes_fit)
{
    for (size_t size = 0; size <= HF_LARGEST; size++) {
        const unsigned class = hf_class_of(size);
        const size_t holds = hf_class_sizes[class];
        ck_assert_uint_lt(class, HF_CLASSES);
        ck_assert_uint_ge(holds, size);
        ck_assert(size <= 128 || (holds - size) * 8 <= holds);
        ck_assert(holds - size < 16 || size > 128);
        ck_assert(class == 0 || hf_class_sizes[class - 1] < size);
    }
    ck_assert_uint_eq(hf_class_sizes[hf_class_of(0)], 0);
}
END_TEST

START_TEST(powers_of_two_are_classes)
{
    for (size_t size = 16; size <= HF_LARGEST; size *= 2)
        ck_assert_uint_eq(hf_class_sizes[hf_class_of(size)], size);
}
END_TEST

START_TEST(alignments)
{
    const size_t page = 4096;
    for (size_t alignment = 16; alignment <= page; alignment *= 2)
        for (size_t size = 1; size <= HF_LARGEST; size += size < 1024 ? 1 : 61) {
            const unsigned class = hf_class_aligned(hf_class_table, alignment, size);
            ck_assert_uint_lt(class, HF_CLASSES);
            const size_t holds = hf_class_sizes[class];
            ck_assert_uint_ge(holds, size);
            ck_assert_uint_eq(holds % alignment, 0);
            for (unsigned below = hf_class_of(size); below < class; below++)
                ck_assert_uint_ne(hf_class_sizes[below] % alignment, 0);
        }
    ck_assert_uint_eq(hf_class_aligned(hf_class_table, (size_t)2 * HF_LARGEST, 1), HF_CLASSES);
    ck_assert_uint_eq(hf_class_aligned(hf_class_table, page, HF_LARGEST + 1), HF_CLASSES);
    ck_assert_uint_eq(hf_class_aligned(hf_class_table, page, HF_LARGEST - 1),
                      hf_class_of(HF_LARGEST));
}
END_TEST

/* Every 16th address and its neighbours: nothing else divides a size. */
static void check_span(struct hf_span *span)
{
    const size_t size = hf_classes[span->class].size;
    char *start = hf_span_start(span), *first = hf_span_block(span, span->before);
    const size_t bytes = hf_span_bytes(span);
    must((uintptr_t)start % HF_UNIT == 0 && first >= start);
    must((uintptr_t)first % (size & -size) == 0);
    must(first + span->blocks * size <= start + bytes);
    for (size_t at = 0; at < bytes; at += at % 16 == 1 ? 14 : 1) {
        uint8_t *state;
        const struct hf_entry *entry = hf_entry_of(start + at);
        const bool begins = hf_entry_state(entry, start + at, &state);
        const ptrdiff_t offset = start + at - first;
        must(begins == (offset % (ptrdiff_t)size == 0));
        must(hf_entry_span(entry) == span);
        const bool inside = offset >= 0 && (size_t)offset < span->blocks * size;
        must((*state == HF_NONE) == !inside);
        if (inside)
            must(state - hf_span_states(span) == span->before + offset / (ptrdiff_t)size);
    }
}

START_TEST(addresses_of_spans)
{
    core_start((size_t)1 << 30);
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        for (int colour = 0; colour < 17; colour++) {
            struct hf_pass pass;
            ck_assert(hf_gate_enter(&pass));
            struct hf_local *local = hf_local_use();
            struct hf_span *span = hf_span_get(local, class);
            ck_assert_ptr_nonnull(span);
            check_span(span);
            hf_local_done(local);
            hf_gate_leave(&pass);
        }
}
END_TEST

int main(void)
{
    return RUN_SUITE(sizes_fit, powers_of_two_are_classes, alignments, addresses_of_spans);
}
