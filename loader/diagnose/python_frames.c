/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the layout of the process's CPython, set once. Reads are guarded (unwind.h): a wrong pointer
 * ends the stack. See python_frames.h.
 */
#include "loader/diagnose/python_frames.h"

#include "alloc/base/dynlink.h"
#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/unwind.h"
#include "loader/diagnose/python_lines.h"

#include <string.h>

static const struct layout {
    unsigned version;
    int16_t thread_frame, inner, back, code, position, owner;
    int16_t file, name, first_line, lines, instructions;
    int16_t ascii, wide;
} layouts[] = {
#define HF_PYTHON_LAYOUT(...) {__VA_ARGS__},
#include "loader/diagnose/python_layouts.def"
};

/* In every version: PyObject, PyVarObject, PyBytesObject, PyASCIIObject. */
enum {
    OBJECT_TYPE = 8,
    BYTES_SIZE = 16,
    BYTES_DATA = 32,
    TEXT_LENGTH = 16,
    TEXT_STATE = 32,
    TEXT_KIND_SHIFT = 2, /* three bits: bytes of a character */
    TEXT_COMPACT = 0x20,
    TEXT_ASCII = 0x40,
    OWNED_BY_C = 3, /* and more: a frame that is no Python function's; since 3.12 */
    TAG = 1,        /* of references in frames, since 3.14 */
    TABLE_MAX = 1 << 20
};

static const struct layout *layout;
static const struct hf_cpython *cpython;
static const void *code_type; /* &PyCode_Type */

/* ---- reading ---- */

static const char *pointer_at(const char *object, int offset)
{
    return *(const char *const volatile *)(object + offset);
}

static int32_t int_at(const char *object, int offset)
{
    return *(const volatile int32_t *)(object + offset);
}

static int64_t long_at(const char *object, int offset)
{
    return *(const volatile int64_t *)(object + offset);
}

static bool is_pointer(const char *object)
{
    return object != NULL && (uintptr_t)object % sizeof(void *) == 0;
}

/* ---- frames ---- */

static const char *first_frame(const char *thread)
{
    const char *at = pointer_at(thread, layout->thread_frame);
    return layout->inner < 0 || !is_pointer(at) ? at : pointer_at(at, layout->inner);
}

static int64_t position_of(const char *frame, const char *code)
{
    if (layout->version <= 0x309)
        return int_at(frame, layout->position);
    if (layout->version == 0x30a)
        return 2 * (int64_t)int_at(frame, layout->position);
    return pointer_at(frame, layout->position) - (code + layout->instructions);
}

struct taking {
    struct hf_python_frame *frames;
    volatile size_t count;
};

/* A thread that has given the GIL up for a call, as ctypes does, has a state that is nobody else's,
 * and whose frames stay as they are until the call is over. */
static const char *thread_state(void)
{
    return (const char *)(hf_cpython_attached(cpython) ? cpython->current_thread()
                                                       : cpython->this_thread());
}

static void follow(void *argument)
{
    struct taking *taking = argument;
    const char *thread = thread_state();
    if (thread == NULL)
        return;
    const char *frame = first_frame(thread);
    for (int steps = 0; is_pointer(frame) && steps < 4 * HF_PYTHON_FRAMES_MAX &&
                        taking->count < HF_PYTHON_FRAMES_MAX;
         steps++, frame = pointer_at(frame, layout->back)) {
        const char *code = pointer_at(frame, layout->code);
        if (layout->version >= 0x30c &&
            *(const volatile char *)(frame + layout->owner) >= OWNED_BY_C)
            continue;
        if (layout->version >= 0x30e)
            code -= (uintptr_t)code & TAG;
        if (!is_pointer(code) || pointer_at(code, OBJECT_TYPE) != code_type)
            return;
        taking->frames[taking->count].code = code;
        taking->frames[taking->count].position = position_of(frame, code);
        taking->count++;
    }
}

static size_t take(struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX])
{
    struct taking taking = {.frames = frames};
    if (cpython->is_initialized() != 0)
        (void)hf_unwind_guard(follow, &taking);
    return taking.count;
}

/* ---- places ---- */

static size_t encode(uint32_t character, char out[4])
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    const size_t bytes = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = bytes; i-- > 1; character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)((0xf00 >> bytes & 0xff) | character);
    return bytes;
}

/* The text of a str, as far as there is room. Lone surrogates (undecodable file names) become '?'.
 */
static void read_text(const char *object, char *out, size_t capacity)
{
    if (!is_pointer(object))
        return;
    const int64_t length = long_at(object, TEXT_LENGTH);
    const uint32_t state = (uint32_t)int_at(object, TEXT_STATE);
    const unsigned width = state >> TEXT_KIND_SHIFT & 7;
    if ((state & TEXT_COMPACT) == 0 || (width != 1 && width != 2 && width != 4))
        return;
    const char *data = object + ((state & TEXT_ASCII) != 0 ? layout->ascii : layout->wide);
    size_t used = 0;
    for (int64_t i = 0; i < length && used + 5 <= capacity; i++) {
        uint32_t character = width == 1   ? ((const volatile uint8_t *)data)[i]
                             : width == 2 ? ((const volatile uint16_t *)(const void *)data)[i]
                                          : ((const volatile uint32_t *)(const void *)data)[i];
        if (character == 0 || character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))
            character = '?';
        used += encode(character, out + used);
        out[used] = '\0';
    }
}

struct describing {
    const struct hf_python_frame *frame;
    struct hf_python_place *out;
};

static void read_place(void *argument)
{
    const struct describing *describing = argument;
    struct hf_python_place *out = describing->out;
    const char *code = describing->frame->code;
    read_text(pointer_at(code, layout->file), out->file, sizeof out->file);
    read_text(pointer_at(code, layout->name), out->function, sizeof out->function);
    const char *lines = pointer_at(code, layout->lines);
    if (!is_pointer(lines))
        return;
    const int64_t size = long_at(lines, BYTES_SIZE);
    if (size >= 0 && size <= TABLE_MAX)
        out->line = hf_python_line(layout->version, (const volatile uint8_t *)lines + BYTES_DATA,
                                   (size_t)size, (uint32_t)int_at(code, layout->first_line),
                                   describing->frame->position);
}

static void describe(const struct hf_python_frame *frame, struct hf_python_place *out)
{
    struct describing describing = {frame, out};
    out->file[0] = out->function[0] = '\0';
    out->line = 0;
    (void)hf_unwind_guard(read_place, &describing);
}

void hf_python_frames_start(const struct hf_cpython *found)
{
    struct hf_object object;
    if (layout != NULL || found->free_threaded || !hf_dynlink_open(found->map, &object))
        return;
    cpython = found;
    code_type = hf_object_address(&object, "PyCode_Type");
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && code_type != NULL; i++)
        if (layouts[i].version == found->version)
            layout = &layouts[i];
    if (layout != NULL)
        hf_python_stack_offer(&(struct hf_python_stack_functions){take, describe});
}
