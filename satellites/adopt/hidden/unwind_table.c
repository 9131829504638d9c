/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See unwind_table.h. Reads .eh_frame record by record; PT_GNU_EH_FRAME says where it begins, and
 * its end is a record of length 0, or the end of the segment's bytes.
 */
#include "satellites/adopt/hidden/unwind_table.h"

#include <errno.h>
#include <string.h>

/* Encodings of pointers (DW_EH_PE_…). */
enum {
    FORM_WORD = 0x00,
    FORM_U2 = 0x02,
    FORM_U4 = 0x03,
    FORM_U8 = 0x04,
    FORM_S2 = 0x0a,
    FORM_S4 = 0x0b,
    FORM_S8 = 0x0c,
    FORM_MASK = 0x0f,
    BASE_MASK = 0x70,
    BASE_NONE = 0x00,
    BASE_HERE = 0x10,
    OMITTED = 0xff
};

/* Bytes that are being read, and their address. */
struct reader {
    const unsigned char *bytes;
    uint64_t size, address, at;
    bool failed;
};

static uint64_t take(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    if (reader->failed || reader->size - reader->at < size) {
        reader->failed = true;
        return 0;
    }
    memcpy(&value, reader->bytes + reader->at, size);
    reader->at += size;
    return value;
}

static uint64_t take_leb(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint64_t byte = take(reader, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
}

/* Reads a pointer in one of the forms of fixed size. */
static uint64_t take_pointer(struct reader *reader, unsigned encoding)
{
    const uint64_t here = reader->address + reader->at;
    uint64_t value;
    switch (encoding & FORM_MASK) {
    case FORM_WORD:
    case FORM_U8:
    case FORM_S8:
        value = take(reader, 8);
        break;
    case FORM_U4:
        value = take(reader, 4);
        break;
    case FORM_S4:
        value = (uint64_t)(int64_t)(int32_t)take(reader, 4);
        break;
    case FORM_U2:
        value = take(reader, 2);
        break;
    case FORM_S2:
        value = (uint64_t)(int64_t)(int16_t)take(reader, 2);
        break;
    default:
        reader->failed = true;
        return 0;
    }
    switch (encoding & BASE_MASK) {
    case BASE_NONE:
        return value;
    case BASE_HERE:
        return here + value;
    default:
        reader->failed = true;
        return 0;
    }
}

static struct reader reader_at(const struct hf_image *image, uint64_t address)
{
    struct reader reader = {.address = address};
    reader.bytes = hf_image_at(image, address, &reader.size);
    reader.failed = reader.bytes == NULL;
    return reader;
}

/* The encoding of the addresses in the records that refer to a common record (CIE). */
static unsigned read_common(const struct hf_image *image, uint64_t address)
{
    struct reader reader = reader_at(image, address);
    const uint64_t length = take(&reader, 4);
    if (length < 8 || take(&reader, 4) != 0)
        return OMITTED;
    const uint64_t version = take(&reader, 1);
    char augmentation[8] = {0};
    size_t letters = 0;
    while (!reader.failed && letters < sizeof augmentation &&
           (augmentation[letters] = (char)take(&reader, 1)) != '\0')
        letters++;
    if (letters == sizeof augmentation || augmentation[0] != 'z')
        return letters == 0 && !reader.failed ? FORM_WORD : OMITTED;
    (void)take_leb(&reader); /* alignment of code */
    (void)take_leb(&reader); /* alignment of data */
    if (version == 1)
        (void)take(&reader, 1);
    else
        (void)take_leb(&reader); /* the return address's register */
    (void)take_leb(&reader);     /* size of what follows */
    for (size_t i = 1; i < letters && !reader.failed; i++)
        switch (augmentation[i]) {
        case 'R':
            return (unsigned)take(&reader, 1);
        case 'L':
            (void)take(&reader, 1);
            break;
        case 'P': {
            /* Where the personality function is; whatever it is relative to does not matter. */
            const unsigned encoding = (unsigned)take(&reader, 1);
            (void)take_pointer(&reader, encoding & FORM_MASK);
            break;
        }
        default: /* 'S', 'B': a flag */
            break;
        }
    return reader.failed ? OMITTED : FORM_WORD;
}

struct common {
    uint64_t address;
    unsigned encoding;
};

/* Where .eh_frame begins. */
static int find_frames(const struct hf_image *image, uint64_t *frames)
{
    Elf64_Phdr header;
    for (size_t cursor = 0; hf_elf_segment(image->elf, &cursor, &header);) {
        if (header.p_type != PT_GNU_EH_FRAME)
            continue;
        struct reader reader = reader_at(image, header.p_vaddr);
        const uint64_t version = take(&reader, 1);
        const unsigned encoding = (unsigned)take(&reader, 1);
        (void)take(&reader, 2);
        *frames = take_pointer(&reader, encoding);
        return reader.failed || version != 1 ? -ENOEXEC : 0;
    }
    return -ENOENT;
}

int hf_unwind_visit(const struct hf_image *image, hf_unwind_visitor *visit, void *context)
{
    uint64_t frames;
    const int error = find_frames(image, &frames);
    if (error != 0)
        return error;
    struct reader reader = reader_at(image, frames);
    struct common common = {0};
    while (!reader.failed && reader.size - reader.at >= 4) {
        const uint64_t start = reader.at, length = take(&reader, 4);
        if (length == 0)
            return 0;
        if (length == UINT32_MAX || length < 4 || length > reader.size - reader.at)
            return -ENOEXEC;
        const uint64_t field = reader.at, distance = take(&reader, 4);
        if (distance != 0) { /* a record of a function: the common one lies that far before it */
            if (common.address != reader.address + field - distance) {
                common.address = reader.address + field - distance;
                common.encoding = read_common(image, common.address);
            }
            if (common.encoding == OMITTED)
                return -ENOEXEC;
            const uint64_t address = take_pointer(&reader, common.encoding);
            const uint64_t size = take_pointer(&reader, common.encoding & FORM_MASK);
            if (reader.failed)
                return -ENOEXEC;
            if (!visit(address, size, context))
                return 0;
        }
        reader.at = start + 4 + length;
    }
    return reader.failed ? -ENOEXEC : 0;
}
