/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See python_frames.h. Owns the layout of the process's CPython, set once, and which pages were
 * seen to be there lately: a wrong pointer that leads to one which is gone meanwhile would be
 * another's.
 */
#include "loader/host/python_frames.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "loader/host/python_lines.h"

#include <string.h>

static const struct layout {
    unsigned version;
    bool free_threaded;
    int16_t thread_frame, inner, back, code, position, owner, copy;
    int16_t file, name, first_line, lines, instructions, copies;
    int16_t object, ascii, wide, kind;
} layouts[] = {
#define HF_PYTHON_LAYOUT(...) {__VA_ARGS__},
#include "loader/host/python_layouts.def"
};

/* In every version, counted from the end of PyObject: PyVarObject, PyBytesObject, PyASCIIObject. */
enum {
    OBJECT_TYPE = -8,
    VAR_SIZE = 0,
    BYTES_DATA = 16,
    TEXT_LENGTH = 0,
    TEXT_STATE = 16,
    /* Counted from the lowest bit of `kind`, which has three: the bytes of a character. */
    TEXT_COMPACT = 1 << 3,
    TEXT_ASCII = 1 << 4,
    COPIES = 8,     /* _PyCodeArray.entries, behind their number */
    OWNED_BY_C = 3, /* and more: a frame that is no Python function's; since 3.12 */
    TAG = 1,        /* of references in frames, since 3.14 */
    TABLE_MAX = 1 << 20
};

static const struct layout *layout;
static const struct hf_cpython *cpython;
static bool (*is_attached)(const struct hf_cpython *);
static const void *code_type; /* &PyCode_Type */

/* ---- reading ---- */

typedef enum hf_python_reading reading;

static bool can_read(reading how, const void *from, size_t size)
{
    return how == HF_PYTHON_BELIEVE || hf_maps_has(from, size);
}

static const char *pointer_at(reading how, const char *object, int64_t offset)
{
    return can_read(how, object + offset, sizeof object)
               ? *(const char *const volatile *)(object + offset)
               : NULL;
}

static int32_t int_at(reading how, const char *object, int offset)
{
    return can_read(how, object + offset, sizeof(int32_t))
               ? *(const volatile int32_t *)(object + offset)
               : 0;
}

static int64_t long_at(reading how, const char *object, int offset)
{
    return can_read(how, object + offset, sizeof(int64_t))
               ? *(const volatile int64_t *)(object + offset)
               : 0;
}

static bool is_pointer(const char *object)
{
    return object != NULL && (uintptr_t)object % sizeof(void *) == 0;
}

/* ---- frames ---- */

static const char *first_frame(reading how, const char *thread)
{
    const char *at = pointer_at(how, thread, layout->thread_frame);
    return layout->inner < 0 || !is_pointer(at) ? at : pointer_at(how, at, layout->inner);
}

/* The instructions that a frame runs: the code's own, or its thread's copy of them. */
static const char *instructions_of(reading how, const char *frame, const char *code)
{
    if (layout->copies < 0)
        return code + layout->instructions;
    const char *copies = pointer_at(how, code, layout->copies);
    const int32_t number = int_at(how, frame, layout->copy);
    if (!is_pointer(copies) || number < 0 || number >= long_at(how, copies, 0))
        return NULL;
    return pointer_at(how, copies, COPIES + (int64_t)sizeof copies * number);
}

/* The byte of the instruction that a frame is at; -1: the first line of its function is all that is
 * known. */
static int64_t position_of(reading how, const char *frame, const char *code)
{
    if (layout->version <= 0x309)
        return int_at(how, frame, layout->position);
    if (layout->version == 0x30a)
        return 2 * (int64_t)int_at(how, frame, layout->position);
    const char *first = instructions_of(how, frame, code);
    if (first == NULL)
        return -1;
    const int64_t position = pointer_at(how, frame, layout->position) - first;
    return position < 2 * long_at(how, code, layout->object + VAR_SIZE) ? position : -1;
}

/* A thread that has given the GIL up for a call, as ctypes does, has a state that is nobody else's,
 * and whose frames stay as they are until the call is over. */
static const char *thread_state(void)
{
    return (const char *)(is_attached(cpython) ? cpython->current_thread()
                                               : cpython->this_thread());
}

static bool is_owned_by_c(reading how, const char *frame)
{
    return layout->version >= 0x30c && can_read(how, frame + layout->owner, 1) &&
           *(const volatile char *)(frame + layout->owner) >= OWNED_BY_C;
}

void hf_python_frames_take(reading how, struct hf_python_frame frames[HF_PYTHON_FRAMES_MAX],
                           volatile size_t *count)
{
    *count = 0;
    if (layout == NULL || cpython->is_initialized() == 0)
        return;
    const char *thread = thread_state();
    if (thread == NULL)
        return;
    const char *frame = first_frame(how, thread);
    for (int steps = 0;
         is_pointer(frame) && steps < 4 * HF_PYTHON_FRAMES_MAX && *count < HF_PYTHON_FRAMES_MAX;
         steps++, frame = pointer_at(how, frame, layout->back)) {
        if (is_owned_by_c(how, frame))
            continue;
        const char *code = pointer_at(how, frame, layout->code);
        if (layout->version >= 0x30e)
            code -= (uintptr_t)code & TAG;
        if (!is_pointer(code) || pointer_at(how, code, layout->object + OBJECT_TYPE) != code_type)
            return;
        frames[*count].code = code;
        frames[*count].position = position_of(how, frame, code);
        *count = *count + 1;
    }
}

uint64_t hf_python_frame_key(reading how, const struct hf_python_frame *frame)
{
    const char *code = frame->code;
    const uint64_t parts[] = {(uintptr_t)code, (uint64_t)frame->position,
                              (uintptr_t)pointer_at(how, code, layout->file),
                              (uintptr_t)pointer_at(how, code, layout->name),
                              (uint32_t)int_at(how, code, layout->first_line)};
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        key = (key ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 29;
    }
    return key;
}

/* ---- places ---- */

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

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
static void read_text(reading how, const char *object, char *out, size_t capacity)
{
    if (!is_pointer(object))
        return;
    const int64_t length = long_at(how, object, layout->object + TEXT_LENGTH);
    const uint32_t state =
        (uint32_t)int_at(how, object, layout->object + TEXT_STATE) >> layout->kind;
    const unsigned width = state & 7;
    if ((state & TEXT_COMPACT) == 0 || (width != 1 && width != 2 && width != 4))
        return;
    const char *data = object + ((state & TEXT_ASCII) != 0 ? layout->ascii : layout->wide);
    size_t used = 0;
    if (length <= 0 || !can_read(how, data, width * least((uint64_t)length, capacity)))
        return;
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

void hf_python_frame_describe(reading how, const struct hf_python_frame *frame,
                              struct hf_python_place *out)
{
    const char *code = frame->code;
    out->file[0] = out->function[0] = '\0';
    out->line = 0;
    read_text(how, pointer_at(how, code, layout->file), out->file, sizeof out->file);
    read_text(how, pointer_at(how, code, layout->name), out->function, sizeof out->function);
    const char *lines = pointer_at(how, code, layout->lines);
    if (!is_pointer(lines))
        return;
    const int64_t size = long_at(how, lines, layout->object + VAR_SIZE);
    const char *table = lines + layout->object + BYTES_DATA;
    if (size >= 0 && size <= TABLE_MAX && can_read(how, table, (size_t)size + 1))
        out->line =
            hf_python_line(layout->version, (const volatile uint8_t *)table, (size_t)size,
                           (uint32_t)int_at(how, code, layout->first_line), frame->position);
}

bool hf_python_frames_start(const struct hf_cpython *found,
                            bool (*attached)(const struct hf_cpython *))
{
    struct hf_object object;
    if (layout != NULL || !hf_dynlink_open(found->map, &object))
        return layout != NULL;
    cpython = found;
    is_attached = attached;
    code_type = hf_object_address(&object, "PyCode_Type");
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && code_type != NULL; i++)
        if (layouts[i].version == found->version &&
            layouts[i].free_threaded == found->free_threaded)
            layout = &layouts[i];
    return layout != NULL;
}
