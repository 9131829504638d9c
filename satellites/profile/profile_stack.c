/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See profile_stack.h.
 */
#include "satellites/profile/profile_stack.h"

#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"
#include "loader/host/python_frames.h"
#include "satellites/profile/profile_core.h"

#include <string.h>

static const struct link_map *own, *core;
static bool knows_python; /* atomic */

/* Places that are in the book, by the frames' keys; with the lock of profile_samples.h. */
enum { PLACES = 2048 };
static struct {
    uint64_t key;
    uint32_t place;
} places[PLACES];

void hf_profile_stack_start(void)
{
    own = hf_dynlink_find_fast((const void *)hf_profile_stack_start);
    core = hf_dynlink_find_fast(hf_core());
}

void hf_profile_stack_begin(void)
{
    if (__atomic_load_n(&knows_python, __ATOMIC_ACQUIRE))
        return;
    const struct hf_cpython *cpython = hf_core()->cpython_find(NULL);
    if (cpython != NULL && hf_python_frames_start(cpython, hf_core()->cpython_attached))
        __atomic_store_n(&knows_python, true, __ATOMIC_RELEASE);
}

void hf_profile_stack_forget(void)
{
    memset(places, 0, sizeof places);
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
    int skipped = 0;
    out->count = 0;
    while (out->count < HF_BOOK_FRAMES_MAX && hf_frame_leave_own(&frame) && frame.code != 0) {
        if (out->count == 0 && skipped < OWN_MAX && is_homefrees(frame.code))
            skipped++;
        else
            out->frames[out->count++] = frame.code + (frame.called ? 0 : 1);
    }
    volatile size_t python = 0;
    if (__atomic_load_n(&knows_python, __ATOMIC_ACQUIRE))
        hf_python_frames_take(HF_PYTHON_ASK, out->python, &python);
    out->python_count = python;
}

/* ---- keeping ---- */

static bool is_runtimes(const char *path)
{
    static const char *const names[] = {"libc.so.",      "libstdc++.so.", "libc++.so.",
                                        "libc++abi.so.", "ld-linux",      "libhomefree-limits.so"};
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
    const size_t size = strlen(text) + 1;
    return size <= HF_BOOK_TEXT_MAX ? hf_book_keep(text, size) : 0;
}

static uint32_t keep_place(const struct hf_python_frame *frame)
{
    static struct hf_python_place place;
    const uint64_t key = hf_python_frame_key(HF_PYTHON_ASK, frame);
    if (places[key % PLACES].key == key)
        return places[key % PLACES].place;
    hf_python_frame_describe(HF_PYTHON_ASK, frame, &place);
    const struct hf_book_place kept = {keep_text(place.function), keep_text(place.file), place.line,
                                       0};
    const uint32_t at = hf_book_keep(&kept, sizeof kept);
    places[key % PLACES].key = 0;
    places[key % PLACES].place = at;
    places[key % PLACES].key = key;
    return at;
}

uint32_t hf_profile_stack_keep(const struct hf_profile_stack *stack)
{
    struct {
        struct hf_book_stack head;
        uint32_t rest[2 * HF_BOOK_FRAMES_MAX + HF_PYTHON_FRAMES_MAX];
    } kept;
    const size_t count = stack->count, size = count * sizeof stack->frames[0];
    kept.head = (struct hf_book_stack){.object = keep_text(object_of(stack)),
                                       .frames = (uint16_t)count,
                                       .python = (uint16_t)stack->python_count};
    memcpy(kept.rest, stack->frames, size);
    for (size_t i = 0; i < stack->python_count; i++)
        kept.rest[2 * count + i] = keep_place(&stack->python[i]);
    return hf_book_keep(&kept, sizeof kept.head + size + stack->python_count * sizeof kept.rest[0]);
}
