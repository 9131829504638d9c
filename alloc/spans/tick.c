/*
 * See tick.h.
 */
#include "alloc/spans/tick.h"

#include "alloc/pages/pages.h"
#include "alloc/spans/large.h"
#include "alloc/spans/supply.h"

void hf_tick(void)
{
    if (HF_LIKELY(!hf_pages_due()))
        return;
    hf_large_trim();
    hf_spans_trim(false);
    hf_pages_settle();
}

void hf_tick_at_end(void)
{
    hf_tick();
    hf_spans_trim_much();
    hf_pages_leave();
}
