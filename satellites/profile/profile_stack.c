/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See profile_stack.h.
 */
#include "satellites/profile/profile_stack.h"

#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"
#include "satellites/profile/profile_core.h"

#include <string.h>

static const struct link_map *own, *core;

void hf_profile_stack_start(void)
{
    own = hf_dynlink_find_fast((const void *)hf_profile_stack_start);
    core = hf_dynlink_find_fast(hf_core());
}

static bool is_homefrees(uint64_t address)
{
    const struct link_map *map = hf_dynlink_find_fast((const void *)(uintptr_t)(address - 1));
    return map != NULL && (map == own || map == core);
}

__attribute__((noinline)) void hf_profile_stack_take(struct hf_profile_stack *out)
{
    enum { OWN_MAX = 24 };
    struct hf_frame frame = hf_frame_here();
    struct hf_frame_window window = {0, 0};
    int skipped = 0;
    out->count = 0;
    while (out->count < HF_BOOK_FRAMES_MAX && hf_frame_leave_own(&frame, &window) &&
           frame.code != 0) {
        if (out->count == 0 && skipped < OWN_MAX && is_homefrees(frame.code))
            skipped++;
        else
            out->frames[out->count++] = frame.code;
    }
}

/* ---- keeping ---- */

static bool is_runtimes(const char *path)
{
    static const char *const names[] = {"libc.so.", "libstdc++.so.", "libc++.so.", "libc++abi.so.",
                                        "ld-linux"};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static const char *object_of(const struct hf_profile_stack *stack)
{
    const char *first = "";
    for (size_t i = 0; i < stack->count; i++) {
        const struct link_map *map =
            hf_dynlink_find_fast((const void *)(uintptr_t)(stack->frames[i] - 1));
        const char *path = map != NULL ? hf_dynlink_name(map) : "";
        if (path[0] != '\0' && !is_runtimes(path))
            return path;
        if (first[0] == '\0')
            first = path;
    }
    return first;
}

static uint32_t keep_text(const char *text)
{
    return hf_book_keep(text, strnlen(text, HF_BOOK_TEXT_MAX - 1) + 1);
}

uint32_t hf_profile_stack_keep(const struct hf_profile_stack *stack)
{
    struct {
        struct hf_book_stack head;
        uint64_t frames[HF_BOOK_FRAMES_MAX];
    } kept;
    kept.head = (struct hf_book_stack){.object = keep_text(object_of(stack)),
                                       .frames = (uint16_t)stack->count};
    memcpy(kept.frames, stack->frames, stack->count * sizeof stack->frames[0]);
    return hf_book_keep(&kept, sizeof kept.head + stack->count * sizeof kept.frames[0]);
}
