/* See core.h. */
#include "core.h"

#include "alloc/base/libc_functions.h"
#include "alloc/base/options.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/spans/supply.h"
#include "alloc/spans/tick.h"
#include "death.h"

#include <stdlib.h>

struct hf_options hf_options;
unsigned core_answers;

/* What the core's neighbours call of units that are not here. */
void hf_heap_fatal_memory(void)
{
    abort();
}
const struct hf_libc hf_libc_functions;
void hf_tick(void)
{
}

void hf_tick_freed(void)
{
}

void hf_tick_at_end(bool last)
{
    (void)last;
}

/* As the real one, but for pages/. */
void hf_tick_answer(struct hf_local *local)
{
    hf_spans_empty(local, false);
    (void)hf_spans_give_pages(local, SIZE_MAX);
    hf_spans_trim(true);
    __atomic_add_fetch(&core_answers, 1, __ATOMIC_RELAXED);
}

void hf_heap_catch_up(void)
{
    struct hf_pass pass;
    if (hf_locals_have_ended() && hf_gate_enter(&pass)) {
        hf_locals_catch_up();
        hf_gate_leave(&pass);
    }
}

void core_start(size_t size)
{
    must(hf_region_reserve(size) == 0);
    must(hf_spans_start());
    must(hf_locals_start());
}

void *core_take(size_t size)
{
    const unsigned class = hf_class_of(size);
    void *ptr = hf_small_take(hf_local_get(), class);
    struct hf_pass pass;
    if (ptr != NULL)
        return ptr;
    while (!hf_gate_enter(&pass))
        (void)hf_gate_wait();
    struct hf_local *local = hf_local_use();
    if (local != NULL)
        ptr = hf_span_take(local, class);
    hf_local_done(local);
    hf_gate_leave(&pass);
    return ptr;
}

int core_give(void *ptr)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    struct hf_local *local = hf_local_get();
    return hf_small_give(local, ptr, entry) ? -1 : hf_span_give(hf_local_own(), ptr, entry);
}

void core_before_fork(void)
{
    hf_gate_close();
}

void core_in_parent(void)
{
    hf_gate_open_in_parent();
    hf_heap_catch_up();
}

void core_in_child(void)
{
    hf_gate_empty_in_child();
    hf_locals_reset_in_child();
    hf_gate_open_in_child();
    hf_heap_catch_up();
}
