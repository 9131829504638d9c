/* SPDX-License-Identifier: BSD-2-Clause */
/* See watched.h. Owns nothing. */
#include "alloc/diagnose/watched.h"

#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/sites.h"

/* What the plain heap calls in place of the functions of heap/front_end.h (rename.txt). */
void hf_plain_watch_allocated(const void *ptr, size_t size, const void *caller);
void hf_plain_watch_freed(const void *ptr, const void *caller);
void hf_plain_watch_resized(const void *ptr, const void *resized, size_t size, const void *caller);

/* hf_watched_allocated() records it. */
void hf_plain_watch_allocated(const void *ptr, size_t size, const void *caller)
{
    (void)ptr;
    (void)size;
    (void)caller;
}

/* Who frees a block is in its footer by now. Otherwise realloc() says who calls it, and whoever
 * has another block freed has said it in hf_watch_call. */
void hf_plain_watch_freed(const void *ptr, const void *caller)
{
    struct hf_footer footer;
    struct hf_call_site call;
    const size_t capacity = hf_heap_capacity(ptr);
    if (capacity != 0 && hf_footer_read(ptr, capacity, &footer) == HF_FOOTER_FREED &&
        (call.caller = hf_site_address((uint32_t)footer.slack, &call.function)) != NULL)
        caller = hf_watched_caller(call);
    hf_watch_freed(ptr, caller);
}

void hf_plain_watch_resized(const void *ptr, const void *resized, size_t size, const void *caller)
{
    hf_watch_resized(ptr, resized, size > HF_FOOTER ? size - HF_FOOTER : size, caller);
}

static __attribute__((noinline, cold)) void free_watched(void *ptr, struct hf_call_site call)
{
    const struct hf_watch_call *const before = hf_watch_call;
    const struct hf_watch_call mine = {.caller = before == NULL ? hf_watched_caller(call) : NULL};
    if (before == NULL)
        hf_watch_call = &mine;
    hf_plain_free(ptr);
    hf_watch_call = before;
}

void hf_watched_free(void *ptr, struct hf_call_site call)
{
    if (hf_is_watched())
        free_watched(ptr, call);
    else
        hf_plain_free(ptr);
}

void hf_watched_resized_here(void *ptr, size_t size, struct hf_call_site call)
{
    const void *caller = hf_watched_caller(call);
    hf_watch_freed(ptr, caller);
    hf_watch_resized(ptr, ptr, size, caller);
}
