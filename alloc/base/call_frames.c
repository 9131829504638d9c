/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See call_frames.h. Tables and descriptions are read in place: they are constant, and belong to an
 * object that has a function on the stack. Their format: LSB, "Exception Frames"; DWARF 5, 6.4.
 *
 * They may still be wrong: a crash can come from an object that was damaged, or put together by
 * hand. No reading leaves the object, or the entry that it began in. Where a crash is looked at,
 * nothing is read before the kernel has said that it can be: an object may have holes.
 */
#include "alloc/base/call_frames.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"

#include <stddef.h>
#include <string.h>
#include <ucontext.h>

/* ---- common entries ---- */

/* Bytes that are being read. */
struct reader {
    const uint8_t *at, *end;
};

/* What descriptions (FDE) have in common (CIE). */
struct common {
    uint8_t encoding; /* of addresses */
    bool augmented;   /* descriptions have additional bytes too */
    bool is_signals;  /* the caller was interrupted, and did not call */
    uint64_t code_unit;
    int64_t data_unit;
    uint64_t return_register;
    struct reader rest; /* further bytes if it is augmented; then instructions */
};

enum { NO_ENCODING = 0xff };

static uint8_t take_byte(struct reader *reader)
{
    return reader->at < reader->end ? *reader->at++ : 0;
}

static uint64_t take_fixed(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    if (reader->end - reader->at < (ptrdiff_t)size)
        size = 0;
    memcpy(&value, reader->at, size);
    reader->at += size;
    return value;
}

static uint64_t take_leb128(struct reader *reader, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = take_byte(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    return is_signed && shift < 64 && (byte & 0x40) != 0 ? value | -(uint64_t)1 << shift : value;
}

/* Nearly all numbers are one byte long. */
static inline bool is_short(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at < 0x80;
}

static inline uint64_t take_unsigned(struct reader *reader)
{
    return is_short(reader) ? *reader->at++ : take_leb128(reader, false);
}

static inline int64_t take_signed(struct reader *reader)
{
    return is_short(reader) ? (*reader->at++ ^ 0x40) - 0x40 : (int64_t)take_leb128(reader, true);
}

/* Leaves out a block that follows its length. */
static void skip_block(struct reader *reader)
{
    const uint64_t size = take_unsigned(reader);
    reader->at =
        size < (uint64_t)(reader->end - reader->at) ? reader->at + (size_t)size : reader->end;
}

/* Where tables may be read. */
struct bounds {
    struct hf_span object;
    bool whole; /* the object is believed to have no holes */
};

/* Whether all pages of a range are mapped. */
static bool is_mapped(const void *from, size_t size)
{
    enum { PAGE = 4096 }; /* or larger */
    const uintptr_t last = (uintptr_t)from + size - 1;
    uint8_t byte;
    for (uintptr_t at = (uintptr_t)from; last - at >= PAGE; at += PAGE)
        if (!hf_maps_read((const void *)at, &byte, 1))
            return false;
    return hf_maps_read(from, &byte, 1) && hf_maps_read((const void *)last, &byte, 1);
}

/* Whether a range can be read. */
static inline bool is_readable(const struct bounds *bounds, const void *from, size_t size)
{
    const uintptr_t offset = (uintptr_t)from - bounds->object.start;
    const size_t length = bounds->object.end - bounds->object.start;
    return offset <= length && size <= length - offset && (bounds->whole || is_mapped(from, size));
}

enum { ENTRY_MAX = 1 << 16 }; /* bytes; the largest of OpenBLAS has 8 KiB */

/* The bytes of an entry behind its length and its second word. */
static inline bool open_entry(const uint8_t *entry, const struct bounds *bounds, struct reader *out)
{
    uint32_t length;
    if (!is_readable(bounds, entry, 2 * sizeof length))
        return false;
    memcpy(&length, entry, sizeof length);
    if (length < sizeof length || length > ENTRY_MAX ||
        !is_readable(bounds, entry, sizeof length + length))
        return false;
    *out = (struct reader){entry + 2 * sizeof length, entry + sizeof length + length};
    return true;
}

/* Bytes of a value; 0 if the encoding has no fixed size. */
static unsigned size_of(uint8_t encoding)
{
    static const uint8_t sizes[8] = {sizeof(void *), 0, 2, 4, 8};
    return (encoding & 0x70) == 0x50 ? 0 : sizes[encoding & 7]; /* 0x50: aligned */
}

/* How addresses are written. */
static uint8_t encoding_of(struct reader augmentation, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        if (*letters == 'R')
            return take_byte(&augmentation);
        if (*letters == 'P') {
            const unsigned size = size_of(take_byte(&augmentation));
            if (size == 0)
                return NO_ENCODING;
            (void)take_fixed(&augmentation, size);
        } else if (*letters == 'L')
            (void)take_byte(&augmentation);
        else if (*letters != 'S' && *letters != 'B')
            return NO_ENCODING;
    }
    return 0;
}

/* Reads the common entry of a description. False if there is none, or none of a known form. */
static bool read_common(const uint8_t *description, const struct bounds *bounds,
                        struct common *common)
{
    struct reader reader;
    uint32_t distance, second;
    memcpy(&distance, description + sizeof distance, sizeof distance);
    const uint8_t *entry = (const void *)((uintptr_t)description + sizeof distance - distance);
    if (!open_entry(entry, bounds, &reader))
        return false;
    memcpy(&second, entry + sizeof second, sizeof second);
    const uint8_t version = take_byte(&reader);
    const char *letters = (const char *)reader.at;
    const uint8_t *end = memchr(letters, '\0', (size_t)(reader.end - reader.at));
    if (second != 0 || (version != 1 && version != 3 && version != 4) || end == NULL)
        return false;
    reader.at = end + 1;
    if (version == 4)
        (void)take_fixed(&reader, 2); /* sizes of addresses and of segment selectors */
    memset(common, 0, sizeof *common);
    common->code_unit = take_unsigned(&reader);
    common->data_unit = take_signed(&reader);
    common->return_register = version == 1 ? take_byte(&reader) : take_unsigned(&reader);
    common->augmented = letters[0] == 'z';
    if (common->augmented) {
        struct reader augmentation = reader;
        (void)take_unsigned(&augmentation);
        common->encoding = encoding_of(augmentation, letters + 1);
        common->is_signals = strchr(letters, 'S') != NULL;
    } else if (letters[0] != '\0')
        common->encoding = NO_ENCODING;
    common->rest = reader;
    return true;
}

/* A description. */
struct description {
    struct common common;
    uint64_t size;       /* of the code that it covers */
    struct reader inner; /* what follows that size */
};

static bool read_description(const uint8_t *entry, const struct bounds *bounds,
                             struct description *out)
{
    if (!open_entry(entry, bounds, &out->inner) || !read_common(entry, bounds, &out->common) ||
        out->inner.end - out->inner.at < 2 * (ptrdiff_t)size_of(out->common.encoding))
        return false;
    const uint8_t *at = out->inner.at;
    uint32_t four;
    switch (size_of(out->common.encoding)) {
    case sizeof four:
        memcpy(&four, at + sizeof four, sizeof four);
        out->size = four;
        out->inner.at += 2 * sizeof four;
        break;
    case sizeof out->size:
        memcpy(&out->size, at + sizeof out->size, sizeof out->size);
        out->inner.at += 2 * sizeof out->size;
        break;
    default:
        return false;
    }
    return true;
}

/* ---- finding a description ---- */

/* .eh_frame_hdr, as every linker writes it: LSB, "Exception Frame Header". */
struct table {
    uint8_t version;
    uint8_t frames_encoding, count_encoding, entries_encoding;
    int32_t frames;
    uint32_t count;
    struct entry {
        int32_t function, description; /* relative to the table */
    } entries[];
};

enum {
    COUNT_ENCODING = 0x03,  /* DW_EH_PE_udata4 */
    ENTRIES_ENCODING = 0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */
};

/* Returns where the function begins; NULL: there is no description. */
static const void *find_description(const void *address, bool whole, struct description *out)
{
    struct bounds bounds = {.whole = whole};
    const struct table *table = hf_dynlink_unwind_table(address, &bounds.object);
    if (table == NULL || (uintptr_t)table % _Alignof(struct table) != 0 ||
        !is_readable(&bounds, table, sizeof *table) || table->version != 1 ||
        size_of(table->frames_encoding) != 4 || table->count_encoding != COUNT_ENCODING ||
        table->entries_encoding != ENTRIES_ENCODING)
        return NULL;
    const intptr_t wanted = (intptr_t)((uintptr_t)address - (uintptr_t)table);
    size_t first = 0, end = table->count;
    if (whole && !is_readable(&bounds, table->entries, end * sizeof table->entries[0]))
        return NULL;
    while (first < end) { /* all entries before `first` begin at or before the address */
        const size_t middle = first + (end - first) / 2;
        const struct entry *entry = &table->entries[middle];
        if (!whole && !is_readable(&bounds, entry, sizeof *entry))
            return NULL;
        if (entry->function <= wanted)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == 0)
        return NULL;
    const struct entry *entry = &table->entries[first - 1];
    const uint8_t *description =
        (const void *)((uintptr_t)table + (uintptr_t)(intptr_t)entry->description);
    if (!read_description(description, &bounds, out) ||
        (uintptr_t)(wanted - entry->function) >= out->size)
        return NULL;
    return (const void *)((uintptr_t)table + (uintptr_t)(intptr_t)entry->function);
}

/* ---- what a description says of one instruction ---- */

/* DWARF's numbers of registers. */
#if defined(__x86_64__)
enum { STACK = 7, POINTER = 6, LINK = 16 };
#elif defined(__aarch64__)
enum { STACK = 31, POINTER = 29, LINK = 30 };
#else
enum { STACK = -1, POINTER = -2, LINK = -3 };
#endif

/* Where a register's value in the caller is. */
struct rule {
    enum { KEPT, SAVED, LOST, NONE, BY_STACK, BY_POINTER } where; /* NONE: nobody called */
    int64_t offset; /* SAVED: from the frame's address; BY_…: from that register */
};

/* The frame's address is where the caller's stack ends. */
struct row {
    bool known;    /* the address is a register and an offset */
    bool indirect; /* or the word that lies there */
    bool is_signals;
    uint64_t base;
    int64_t offset;
    struct rule pointer, link;
};

/* An offset in the units of a common entry. */
static int64_t scaled(uint64_t offset, const struct common *common)
{
    return (int64_t)(offset * (uint64_t)common->data_unit);
}

static void set_rule(struct row *row, uint64_t number, struct rule rule)
{
    if (number == (uint64_t)POINTER)
        row->pointer = rule;
    else if (number == (uint64_t)LINK)
        row->link = rule;
}

static void restore(struct row *row, const struct row *initial, uint64_t number)
{
    set_rule(row, number, number == (uint64_t)POINTER ? initial->pointer : initial->link);
}

static void set_address(struct row *row, uint64_t base, int64_t offset)
{
    row->known = true;
    row->indirect = false;
    row->base = base;
    row->offset = offset;
}

/* Reads an expression that is a register and an offset, and perhaps the word there, as where the
 * stack was aligned anew, and in a signal's frame. False if it is another one. */
static bool take_expression(struct reader *reader, uint64_t *base, int64_t *offset, bool *indirect)
{
    enum { REGISTER_0 = 0x70, REGISTER_31 = 0x8f, DEREFERENCE = 0x06 }; /* DW_OP_breg0… */
    struct reader inner = *reader;
    skip_block(reader);
    (void)take_unsigned(&inner);
    inner.end = reader->at;
    const uint8_t code = take_byte(&inner);
    *base = (uint64_t)code - REGISTER_0;
    *offset = take_signed(&inner);
    *indirect = inner.at < inner.end && *inner.at == DEREFERENCE;
    return code >= REGISTER_0 && code <= REGISTER_31 && inner.at + *indirect == inner.end;
}

static struct rule take_rule(struct reader *reader)
{
    uint64_t base;
    struct rule rule;
    bool indirect;
    if (!take_expression(reader, &base, &rule.offset, &indirect) || indirect ||
        (base != (uint64_t)STACK && base != (uint64_t)POINTER))
        return (struct rule){.where = LOST};
    rule.where = base == (uint64_t)STACK ? BY_STACK : BY_POINTER;
    return rule;
}

/* DW_CFA_…; the first three have an operand in their lower bits. */
enum {
    ADVANCE = 0x40,
    OFFSET = 0x80,
    RESTORE = 0xc0,
    NOP = 0x00,
    ADVANCE_1 = 0x02,
    ADVANCE_2 = 0x03,
    ADVANCE_4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER_STATE = 0x0a,
    RESTORE_STATE = 0x0b,
    ADDRESS = 0x0c,
    ADDRESS_REGISTER = 0x0d,
    ADDRESS_OFFSET = 0x0e,
    ADDRESS_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SIGNED = 0x11,
    ADDRESS_SIGNED = 0x12,
    ADDRESS_OFFSET_SIGNED = 0x13,
    VALUE_OFFSET = 0x14,
    VALUE_OFFSET_SIGNED = 0x15,
    VALUE_EXPRESSION = 0x16,
    SIGNED_RETURN = 0x2d, /* aarch64: return addresses have a signature from here on, or none */
    ARGUMENTS_SIZE = 0x2e
};

/* Carries out one instruction other than those that advance. False if it is unknown. */
static bool carry_out(uint8_t code, struct reader *reader, const struct common *common,
                      const struct row *initial, struct row *row)
{
    uint64_t number;
    switch (code) {
    case NOP:
    case SIGNED_RETURN:
        return true;
    case OFFSET_EXTENDED:
        number = take_unsigned(reader);
        set_rule(row, number, (struct rule){SAVED, scaled(take_unsigned(reader), common)});
        return true;
    case OFFSET_EXTENDED_SIGNED:
        number = take_unsigned(reader);
        set_rule(row, number, (struct rule){SAVED, scaled((uint64_t)take_signed(reader), common)});
        return true;
    case RESTORE_EXTENDED:
        restore(row, initial, take_unsigned(reader));
        return true;
    case UNDEFINED:
        set_rule(row, take_unsigned(reader), (struct rule){.where = NONE});
        return true;
    case SAME_VALUE:
        set_rule(row, take_unsigned(reader), (struct rule){.where = KEPT});
        return true;
    case REGISTER:
    case VALUE_OFFSET:
    case VALUE_OFFSET_SIGNED:
        set_rule(row, take_unsigned(reader), (struct rule){.where = LOST});
        (void)take_unsigned(reader);
        return true;
    case EXPRESSION:
        number = take_unsigned(reader);
        set_rule(row, number, take_rule(reader));
        return true;
    case VALUE_EXPRESSION:
        set_rule(row, take_unsigned(reader), (struct rule){.where = LOST});
        skip_block(reader);
        return true;
    case ADDRESS:
        number = take_unsigned(reader);
        set_address(row, number, (int64_t)take_unsigned(reader));
        return true;
    case ADDRESS_SIGNED:
        number = take_unsigned(reader);
        set_address(row, number, scaled((uint64_t)take_signed(reader), common));
        return true;
    case ADDRESS_REGISTER:
        set_address(row, take_unsigned(reader), row->offset);
        return true;
    case ADDRESS_OFFSET:
        row->offset = (int64_t)take_unsigned(reader);
        return true;
    case ADDRESS_OFFSET_SIGNED:
        row->offset = scaled((uint64_t)take_signed(reader), common);
        return true;
    case ADDRESS_EXPRESSION:
        row->known = take_expression(reader, &row->base, &row->offset, &row->indirect);
        return true;
    case ARGUMENTS_SIZE:
        (void)take_unsigned(reader);
        return true;
    default:
        return false;
    }
}

/* Carries out the instructions for all code up to `wanted`, bytes behind the function's first. */
static bool carry_out_all(struct reader reader, const struct common *common, uint64_t wanted,
                          struct row *row)
{
    enum { REMEMBERED_MAX = 8 };
    const struct row initial = *row;
    struct row remembered[REMEMBERED_MAX];
    size_t depth = 0;
    for (uint64_t location = 0; reader.at < reader.end && location <= wanted;) {
        const uint8_t code = take_byte(&reader), operand = code & 0x3f;
        if ((code & 0xc0) == ADVANCE)
            location += operand * common->code_unit;
        else if (code == ADVANCE_1 || code == ADVANCE_2 || code == ADVANCE_4)
            location += take_fixed(&reader, 1U << (code - ADVANCE_1)) * common->code_unit;
        else if ((code & 0xc0) == OFFSET)
            set_rule(row, operand, (struct rule){SAVED, scaled(take_unsigned(&reader), common)});
        else if ((code & 0xc0) == RESTORE)
            restore(row, &initial, operand);
        else if (code == REMEMBER_STATE && depth < REMEMBERED_MAX)
            remembered[depth++] = *row;
        else if (code == RESTORE_STATE && depth > 0)
            *row = remembered[--depth];
        else if (!carry_out(code, &reader, common, &initial, row))
            return false;
    }
    return true;
}

/* Finds what holds at an instruction. */
static bool find_row(uintptr_t code, bool whole, struct row *row)
{
    struct description found;
    const void *function = find_description((const void *)code, whole, &found);
    if (function == NULL)
        return false;
    if (found.common.augmented) {
        skip_block(&found.common.rest);
        skip_block(&found.inner);
    }
    memset(row, 0, sizeof *row);
    row->is_signals = found.common.is_signals;
    return found.common.return_register == (uint64_t)LINK &&
           carry_out_all(found.common.rest, &found.common, 0, row) &&
           carry_out_all(found.inner, &found.common, code - (uintptr_t)function, row) && row->known;
}

/* ---- frames ---- */

struct hf_frame hf_frame_of(const void *context)
{
    const ucontext_t *thread = context;
#if defined(__x86_64__)
    const greg_t *registers = thread->uc_mcontext.gregs;
    return (struct hf_frame){.code = (uintptr_t)registers[REG_RIP],
                             .stack = (uintptr_t)registers[REG_RSP],
                             .pointer = (uintptr_t)registers[REG_RBP]};
#else
    return (struct hf_frame){.code = thread->uc_mcontext.pc,
                             .stack = thread->uc_mcontext.sp,
                             .pointer = thread->uc_mcontext.regs[POINTER],
                             .link = thread->uc_mcontext.regs[LINK]};
#endif
}

bool hf_frame_follows_call(uintptr_t address)
{
#if defined(__x86_64__)
    unsigned char code[7];
    if (!hf_maps_read((const void *)(address - sizeof code), code, sizeof code))
        return false;
    if (code[2] == 0xe8) /* call rel32 */
        return true;
    for (size_t i = 0; i < 6; i++) /* call *reg, *(reg), *disp8(reg), *disp32(reg or rip) */
        if (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2)
            return true;
    return false;
#else
    uint32_t code;
    return address % 4 == 0 &&
           hf_maps_read((const void *)(address - sizeof code), &code, sizeof code) &&
           (code >> 26 == 0x25 || (code & 0xfffffc1f) == 0xd63f0000); /* bl, blr */
#endif
}

/* What was found at an instruction, in one word beside another that is the instruction's address
 * combined with it: so a pair that two threads have written halves of is nobody's. */
struct kept_row {
    uint64_t known : 1, pointer_base : 1, pointer : 2, link : 2, offset : 24;
    int64_t pointer_offset : 17, link_offset : 17;
};
_Static_assert(sizeof(struct kept_row) == sizeof(uint64_t), "one word");

static bool find_own_row(uintptr_t code, struct row *row)
{
    enum { KEPT_ROWS = 4096 };
    static struct {
        uint64_t key, row;
    } kept[KEPT_ROWS]; /* atomic */
    const size_t place = (code ^ code >> 12) % KEPT_ROWS;
    uint64_t word = __atomic_load_n(&kept[place].row, __ATOMIC_RELAXED);
    struct kept_row short_row;
    if ((__atomic_load_n(&kept[place].key, __ATOMIC_RELAXED) ^ word) == code) {
        memcpy(&short_row, &word, sizeof word);
        *row = (struct row){.known = short_row.known,
                            .base = (uint64_t)(short_row.pointer_base ? POINTER : STACK),
                            .offset = (int64_t)short_row.offset,
                            .pointer = {short_row.pointer, short_row.pointer_offset},
                            .link = {short_row.link, short_row.link_offset}};
        return row->known;
    }
    const bool known = find_row(code, true, row) &&
                       (row->base == (uint64_t)STACK || row->base == (uint64_t)POINTER);
    short_row = (struct kept_row){.known = known};
    if (known)
        short_row = (struct kept_row){.known = 1,
                                      .pointer_base = row->base == (uint64_t)POINTER,
                                      .pointer = row->pointer.where,
                                      .link = row->link.where,
                                      .offset = (uint64_t)row->offset,
                                      .pointer_offset = row->pointer.offset,
                                      .link_offset = row->link.offset};
    if (!known || (!row->indirect && !row->is_signals && row->pointer.where <= NONE &&
                   row->link.where <= NONE && (int64_t)short_row.offset == row->offset &&
                   short_row.pointer_offset == row->pointer.offset &&
                   short_row.link_offset == row->link.offset)) {
        memcpy(&word, &short_row, sizeof word);
        __atomic_store_n(&kept[place].row, word, __ATOMIC_RELAXED);
        __atomic_store_n(&kept[place].key, code ^ word, __ATOMIC_RELAXED);
    }
    return known;
}

/* How a stack is read. */
enum reading { ASKING, OWN, BELIEVING };

static bool read_word(enum reading reading, uintptr_t address, uintptr_t *out)
{
    if (reading == ASKING)
        return hf_maps_read((const void *)address, out, sizeof *out);
    if (address % sizeof *out != 0 ||
        (reading == OWN && !hf_maps_has((const void *)address, sizeof *out)))
        return false;
    *out = *(const volatile uintptr_t *)address;
    return true;
}

/* A register's value in the caller. address: the frame's; kept: the value here. */
static bool recover(const struct rule *rule, uintptr_t address, const struct hf_frame *frame,
                    uintptr_t kept, enum reading reading, uintptr_t *out)
{
    const uintptr_t offset = (uintptr_t)rule->offset;
    switch (rule->where) {
    case KEPT:
        *out = kept;
        return true;
    case SAVED:
        return read_word(reading, address + offset, out);
    case BY_STACK:
        return read_word(reading, frame->stack + offset, out);
    case BY_POINTER:
        return read_word(reading, frame->pointer + offset, out);
    default:
        return false;
    }
}

/* A return address without the signature that aarch64 may have put into its upper bits. */
static uintptr_t without_signature(uintptr_t address)
{
#if defined(__aarch64__)
    return address & (((uintptr_t)1 << 48) - 1);
#else
    return address;
#endif
}

static bool leave(struct hf_frame *frame, enum reading reading)
{
    struct row row;
    struct hf_frame caller = {.called = true};
    const uintptr_t code = frame->code - frame->called;
    if (!(reading == ASKING ? find_row(code, false, &row) : find_own_row(code, &row)) ||
        (row.base != (uint64_t)STACK && row.base != (uint64_t)POINTER))
        return false;
    caller.called = !row.is_signals;
    caller.stack =
        (row.base == (uint64_t)STACK ? frame->stack : frame->pointer) + (uintptr_t)row.offset;
    if (row.indirect && !read_word(reading, caller.stack, &caller.stack))
        return false;
    /* Only a function that a signal interrupted has its return address in a register. What a signal
     * interrupted may have another stack. */
    if (caller.stack % sizeof(void *) != 0 || (row.is_signals && reading == ASKING) ||
        (caller.stack < frame->stack && !row.is_signals) ||
        (caller.stack == frame->stack && frame->called))
        return false;
    if (row.link.where != NONE) {
        if (!recover(&row.link, caller.stack, frame, frame->link, reading, &caller.code) ||
            caller.code == 0)
            return false;
        caller.code = without_signature(caller.code);
        /* Not needed for the return: an outer frame finds it in its own, or not at all. */
        if (!recover(&row.pointer, caller.stack, frame, frame->pointer, reading, &caller.pointer))
            caller.pointer = 0;
    }
    *frame = caller;
    return true;
}

bool hf_frame_leave(struct hf_frame *frame)
{
    return leave(frame, ASKING);
}

bool hf_frame_leave_own(struct hf_frame *frame)
{
    return leave(frame, OWN);
}

bool hf_frame_leave_believing(struct hf_frame *frame)
{
    return leave(frame, BELIEVING);
}
