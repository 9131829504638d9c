/*
 * Call frame information, which is read where a process crashes, from the memory of whatever object
 * is on the stack. An input is an address and a distance from the table, and then .eh_frame_hdr and
 * .eh_frame as they lie in memory. Nothing else can be read.
 */
#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };
static uintptr_t stack[WORDS];
static struct {
    uint8_t *bytes;
    size_t size;
    size_t table; /* where .eh_frame_hdr begins */
} object;

const void *hf_dynlink_unwind_table(const void *address, struct hf_span *span)
{
    (void)address;
    /* Ends later than what can be read. */
    *span = (struct hf_span){(uintptr_t)object.bytes, (uintptr_t)object.bytes + object.size + 4096};
    return object.bytes + object.table;
}

static bool lies_in(const void *address, size_t size, const void *from, size_t length)
{
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)from;
    return offset <= length && size <= length - offset;
}

bool hf_maps_read(const void *address, void *buffer, size_t size)
{
    if (!lies_in(address, size, object.bytes, object.size) &&
        !lies_in(address, size, stack, sizeof stack))
        return false;
    memcpy(buffer, address, size);
    return true;
}

bool hf_maps_has(const void *address, size_t size)
{
    return lies_in(address, size, stack, sizeof stack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct {
        int32_t code; /* from the table */
        uint16_t table, next;
    } head;
    if (size <= sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    object.size = size - sizeof head;
    object.table = head.table & -(size_t)4;
    object.bytes = malloc(object.size); /* of its own, so that AddressSanitizer sees its end */
    ck_assert_ptr_nonnull(object.bytes);
    memcpy(object.bytes, data + sizeof head, object.size);
    const uintptr_t code = (uintptr_t)object.bytes + object.table + (uintptr_t)(intptr_t)head.code;
    for (size_t i = 0; i < WORDS; i++)
        stack[i] = code + i * head.next;
    struct hf_frame frame = {.code = code, .stack = (uintptr_t)stack};
    frame.pointer = (uintptr_t)(stack + WORDS / 2);
    for (size_t i = 0; i < WORDS && frame.code != 0; i++) {
        const uintptr_t before = frame.stack;
        if (!hf_frame_leave(&frame))
            break;
        ck_assert_uint_ge(frame.stack, before);
    }
    free(object.bytes);
    return 0;
}
