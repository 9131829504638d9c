/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See trim_requests.h. Owns nothing: the struct is the core's.
 */
#include "satellites/background/trim_requests.h"

#include "satellites/background/background_core.h"

#include <homefree/trim.h>
#include <string.h>

void hf_trim_requests_listen(void)
{
    struct hf_live_trim *request = hf_core()->request;
    request->answered = __atomic_load_n(&request->asked, __ATOMIC_RELAXED);
    __atomic_store_n(&request->listens, 1, __ATOMIC_RELEASE);
}

void hf_trim_requests_left(void)
{
    __atomic_store_n(&hf_core()->request->listens, 0, __ATOMIC_RELEASE);
}

/* The text's end, if it is too long. */
static void copy(char *to, size_t size, const char *text)
{
    const size_t length = text != NULL ? strlen(text) : 0;
    memset(to, 0, size);
    if (length < size)
        memcpy(to, text != NULL ? text : "", length);
    else
        memcpy(to, text + length - (size - 1), size - 1);
}

static void add(const struct hf_trimmed *trimmed, void *context)
{
    struct hf_live_trim *request = context;
    if (request->count == HF_LIVE_TRIM_ROWS) {
        request->left_out++;
        return;
    }
    struct hf_live_trim_row *row = &request->rows[request->count++];
    copy(row->allocator, sizeof row->allocator, trimmed->allocator);
    copy(row->how, sizeof row->how, trimmed->how);
    copy(row->object, sizeof row->object, trimmed->object);
    row->before = trimmed->before;
    row->after = trimmed->after;
}

void hf_trim_requests_answer(void)
{
    struct hf_live_trim *request = hf_core()->request;
    const uint64_t asked = __atomic_load_n(&request->asked, __ATOMIC_ACQUIRE);
    if (asked == request->answered)
        return;
    request->count = request->left_out = 0;
    request->error = hf_core()->trim(add, request);
    __atomic_store_n(&request->answered, asked, __ATOMIC_RELEASE);
}
