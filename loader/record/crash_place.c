/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the object whose code a signal interrupted. Owns nothing, allocates nothing and never
 * blocks, so it may be called in a signal handler and by any thread.
 *
 * Frames are followed first. Functions such as abort() leave parts of theirs uninitialised, where
 * return addresses of finished calls remain, and nothing tells such a call from one that is under
 * way. So words are only looked at from where the frames cannot be followed any further.
 */
#include "loader/record/crash_place.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/maps.h"
#include "loader/interpose/slot_policy.h"

#include <gnu/libc-version.h>
#include <string.h>

static enum hf_object_role role_of(const struct link_map *map)
{
    struct hf_object object;
    return hf_dynlink_open(map, &object) ? hf_object_role(&object) : HF_ROLE_NOTHING;
}

/* Whether libc or homefree ended the process with a message of their own, which already names the
 * cause. */
static bool has_spoken(void)
{
    struct hf_object object;
    const struct link_map *libc = hf_dynlink_find_fast((const void *)gnu_get_libc_version);
    char *const *message = libc != NULL && hf_dynlink_open(libc, &object)
                               ? hf_object_address(&object, "__abort_msg")
                               : NULL;
    return hf_fatal_speaker != 0 || (message != NULL && *message != NULL);
}

/* Considers one address. Returns true when the search is complete. */
static bool take(struct hf_doctor_place *out, uintptr_t code)
{
    const struct link_map *map = hf_dynlink_find_fast((const void *)code);
    const enum hf_object_role role = map != NULL ? role_of(map) : HF_ROLE_NOTHING;
    if (role != HF_ROLE_ORDINARY || map == out->object)
        return false;
    if (out->object == NULL) {
        out->object = map;
        out->code = code;
        return false;
    }
    out->caller = map;
    return true;
}

static bool is_return_address(uintptr_t address)
{
    return hf_dynlink_find_fast((const void *)address) != NULL && hf_frame_follows_call(address);
}

/* Considers the frame's callers. Returns true when the search is complete; otherwise `frame` is the
 * outermost one that could be reached. */
static bool follow(struct hf_frame *frame, struct hf_doctor_place *out)
{
    enum { FRAMES_MAX = 512 };
    struct hf_frame caller = *frame;
    for (int i = 0; i < FRAMES_MAX && hf_frame_leave(&caller); i++) {
        if (caller.code == 0)
            return true;
        if (!is_return_address(caller.code))
            return false;
        *frame = caller;
        if (take(out, frame->code))
            return true;
    }
    return false;
}

/* Considers all words of the stack from `at` on. */
static void scan(uintptr_t at, struct hf_doctor_place *out)
{
    enum { WORDS = 512, WINDOWS = 16 };
    uintptr_t words[WORDS];
    for (size_t window = 0; window < WINDOWS; window++) {
        size_t count = WORDS;
        while (count > 0 && !hf_maps_read((const void *)at, words, count * sizeof words[0]))
            count /= 2; /* the end of the stack */
        for (size_t i = 0; i < count; i++)
            if (is_return_address(words[i]) && take(out, words[i]))
                return;
        if (count < WORDS)
            return;
        at += sizeof words;
    }
}

void hf_doctor_search_place(const struct hf_frame *crash, struct hf_doctor_place *out)
{
    struct hf_frame frame = *crash;
    memset(out, 0, sizeof *out);
    if (!take(out, crash->code) && !follow(&frame, out))
        scan(frame.stack & -sizeof(uintptr_t), out);
}

void hf_doctor_find_place(const struct hf_frame *crash, struct hf_doctor_place *out)
{
    memset(out, 0, sizeof *out);
    if (!has_spoken())
        hf_doctor_search_place(crash, out);
}
