/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; see code.h.
 *
 * The encodings are those of the Arm Architecture Reference Manual for A-profile, C4 ("A64
 * Instruction Set Encoding"). There is no disassembler behind this: instructions are words, a dozen
 * forms refer to addresses, and of all others only the numbers of their registers matter, which
 * stand in four places. Disassemblers say much more, but not reliably what is asked here: every
 * register that an instruction may read. So whatever is not one of the forms below counts as
 * reading each register that its word could name, and as changing none.
 */
#include "satellites/adopt/hidden/code.h"

#include <string.h>

enum { WORD = 4, PAGE = 4096, ZERO = 31 };

static uint32_t word_at(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint32_t field(uint32_t word, unsigned low, unsigned width)
{
    return word >> low & ((UINT32_C(1) << width) - 1);
}

static int64_t signed_field(uint32_t word, unsigned low, unsigned width)
{
    const int64_t sign = INT64_C(1) << (width - 1);
    return ((int64_t)field(word, low, width) ^ sign) - sign;
}

static bool is(uint32_t word, uint32_t mask, uint32_t value)
{
    return (word & mask) == value;
}

/* ---- where instructions lead ---------------------------------------------------------------- */

static bool is_return(uint32_t word)
{
    return is(word, 0xfffffc1f, 0xd65f0000) || is(word, 0xfffffbff, 0xd65f0bff); /* ret, reta[ab] */
}

/* br, and with authentication; with a link, blr */
static bool is_indirect(uint32_t word, bool link)
{
    const uint32_t opcode = link ? 0x00200000 : 0;
    return is(word, 0xfffffc1f, 0xd61f0000 | opcode) || is(word, 0xfefff800, 0xd61f0800 | opcode);
}

static bool is_trap(uint32_t word)
{
    return is(word, 0xffff0000, 0) || is(word, 0xffe0001f, 0xd4200000) || /* udf, brk */
           is(word, 0xffe0001f, 0xd4400000) || word == 0xd69f03e0;        /* hlt, eret */
}

static bool is_call_of_system(uint32_t word)
{
    return is(word, 0xffe0001f, 0xd4000001);
}

static bool is_literal(uint32_t word)
{
    return is(word, 0x3b000000, 0x18000000);
}

/* The address that ADR and ADRP form. */
static uint64_t formed(uint32_t word, uint64_t address)
{
    const int64_t value = signed_field(word, 5, 19) * 4 + field(word, 29, 2);
    return (word & 0x80000000) == 0 ? address + (uint64_t)value
                                    : address / PAGE * PAGE + (uint64_t)(value * PAGE);
}

static bool decode(const unsigned char *bytes, size_t size, uint64_t address,
                   struct hf_instruction *out)
{
    if (size < WORD || address % WORD != 0)
        return false;
    const uint32_t word = word_at(bytes);
    *out = (struct hf_instruction){.length = WORD};
    int64_t distance;
    if (is(word, 0x7c000000, 0x14000000)) { /* b, bl */
        out->kind = (word & 0x80000000) != 0 ? HF_CODE_CALL : HF_CODE_JUMP;
        distance = signed_field(word, 0, 26);
    } else if (is(word, 0xff000000, 0x54000000) ||
               is(word, 0x7e000000, 0x34000000)) { /* b.cond, bc.cond; cbz, cbnz */
        out->kind = HF_CODE_BRANCH;
        distance = signed_field(word, 5, 19);
    } else if (is(word, 0x7e000000, 0x36000000)) { /* tbz, tbnz */
        out->kind = HF_CODE_BRANCH;
        distance = signed_field(word, 5, 14);
    } else if (is(word, 0x7e000000, 0x74000000)) { /* cb of two values */
        out->kind = HF_CODE_BRANCH;
        distance = signed_field(word, 5, 9);
    } else {
        out->forms = is(word, 0x1f000000, 0x10000000);
        if (is_literal(word))
            out->operand = address + (uint64_t)(signed_field(word, 5, 19) * WORD);
        if (is_return(word) || is_indirect(word, false) || is_trap(word))
            out->kind = HF_CODE_END;
        return true;
    }
    out->target = address + (uint64_t)(distance * WORD);
    return true;
}

/* ---- what they do with registers ------------------------------------------------------------ */

static uint32_t set_of(unsigned number)
{
    return number < HF_REGISTERS ? UINT32_C(1) << number : 0;
}

/* The register in a field, where 31 is none. */
static unsigned number_at(uint32_t word, unsigned low)
{
    const unsigned number = field(word, low, 5);
    return number == ZERO ? HF_REGISTER_NONE : number;
}

static uint32_t register_at(uint32_t word, unsigned low)
{
    return set_of(number_at(word, low));
}

enum { RD = 0, RN = 5, RA = 10, RM = 16 };

static uint32_t all_registers_of(uint32_t word)
{
    return register_at(word, RD) | register_at(word, RN) | register_at(word, RA) |
           register_at(word, RM);
}

static void give(struct hf_effect *out, enum hf_code_result result, unsigned to)
{
    out->changes = set_of(to);
    out->to = to;
    if (to != HF_REGISTER_NONE)
        out->result = result;
}

/* ADR, ADRP; ADD and SUB of immediate values, MOVZ and its kind, bit fields. */
static void effect_of_immediates(uint32_t word, uint64_t address, struct hf_effect *out)
{
    const unsigned to = number_at(word, RD);
    if (is(word, 0x1f000000, 0x10000000)) {
        give(out, (word & 0x80000000) != 0 ? HF_RESULT_PAGE : HF_RESULT_ADDRESS, to);
        out->value = formed(word, address);
    } else if (is(word, 0xbf800000, 0x91000000) && field(word, RN, 5) != ZERO &&
               to != HF_REGISTER_NONE) { /* add, sub of 64 bits, not of the stack pointer */
        give(out, HF_RESULT_SUM, to);
        out->base = field(word, RN, 5);
        out->offset = (int64_t)field(word, 10, 12) << ((word & 0x400000) != 0 ? 12 : 0);
        if ((word & 0x40000000) != 0)
            out->offset = -out->offset;
    } else if (is(word, 0x1f800000, 0x12800000)) { /* movn, movz, movk */
        out->reads = field(word, 29, 2) == 3 ? set_of(to) : 0;
        out->changes = set_of(to);
    } else if (is(word, 0x1f800000, 0x13800000)) { /* extr */
        out->reads = register_at(word, RN) | register_at(word, RM);
        out->changes = set_of(to);
    } else { /* bit fields may keep a part of what was there */
        out->reads = register_at(word, RN) | (is(word, 0x1f800000, 0x13000000) ? set_of(to) : 0);
        out->changes = set_of(to);
    }
}

static void effect_of_registers(uint32_t word, struct hf_effect *out)
{
    const unsigned to = number_at(word, RD);
    const uint32_t class = field(word, 21, 8);
    out->reads = register_at(word, RN) | register_at(word, RM);
    if (is(word, 0xffe0ffe0, 0xaa0003e0)) { /* mov */
        out->reads = 0;
        out->sources = register_at(word, RM);
        give(out, HF_RESULT_ONE_OF, to);
    } else if (is(word, 0x9fe00000, 0x9a800000)) { /* csel and its kind */
        out->sources = out->reads;
        out->reads = 0;
        give(out, HF_RESULT_ONE_OF, to);
    } else if (is(word, 0x3f00001f, 0x2b00001f)) { /* cmp: to compare an address is not to use it */
        out->reads = 0;
    } else if (is(word, 0x1e000000, 0x0a000000)) { /* logical, add, subtract */
        out->changes = set_of(to);
        out->computes = true;
    } else if (is(word, 0x1f000000, 0x1b000000)) { /* three sources */
        out->reads |= register_at(word, RA);
        out->changes = set_of(to);
    } else if ((class == 0xd0 && field(word, 10, 6) == 0) || class == 0xd4) { /* adc, sbc; csel */
        out->changes = set_of(to);
    } else if (class == 0xd6) {       /* one and two sources */
        if ((word & 0x40000000) != 0) /* one; pointer authentication changes another */
            out->reads = register_at(word, RN) | (field(word, RM, 5) != 0 ? set_of(to) : 0);
        out->changes = set_of(to);
    } else if (class != 0xd2 && class != 0xd0) { /* ccmp; flags */
        out->reads = all_registers_of(word);
    }
}

static void access_at(uint32_t word, int64_t offset, struct hf_effect *out)
{
    out->base = field(word, RN, 5);
    out->offset = offset;
    out->accesses = true;
}

/* A load or store of one register, or of two. */
static void move_registers(uint32_t word, bool load, bool whole, bool pair, struct hf_effect *out)
{
    const unsigned moved[2] = {number_at(word, RD), pair ? number_at(word, RA) : HF_REGISTER_NONE};
    for (unsigned i = 0; i < 2; i++) {
        if (!load) {
            out->stored[i] = moved[i];
            continue;
        }
        out->changes |= set_of(moved[i]);
        if (whole)
            out->loaded[i] = moved[i];
    }
}

static void effect_of_pair(uint32_t word, struct hf_effect *out)
{
    const bool vector = (word & 0x04000000) != 0, load = (word & 0x00400000) != 0;
    const unsigned size = field(word, 30, 2), mode = field(word, 23, 2);
    /* Other than in the others, size 1 is one of words (ldpsw) or of tags (stgp). */
    const unsigned scale = vector ? 2 + size : size == 2 ? 3 : size == 1 && !load ? 4 : 2;
    access_at(word, mode == 1 ? 0 : signed_field(word, 15, 7) * (INT64_C(1) << scale), out);
    out->advances = mode == 1 || mode == 3;
    if (!vector)
        move_registers(word, load, size == 2, true, out);
}

static void effect_of_single(uint32_t word, struct hf_effect *out)
{
    const bool vector = (word & 0x04000000) != 0;
    const unsigned size = field(word, 30, 2), opcode = field(word, 22, 2);
    const bool prefetch = !vector && size == 3 && opcode == 2;
    if ((word & 0x01000000) != 0) { /* unsigned offset */
        const unsigned scale = vector && opcode >= 2 ? 4 : size;
        access_at(word, (int64_t)field(word, 10, 12) << scale, out);
    } else if ((word & 0x00200000) == 0) { /* 9 bits: unscaled, behind, unprivileged, in front */
        const unsigned mode = field(word, 10, 2);
        access_at(word, mode == 1 ? 0 : signed_field(word, 12, 9), out);
        out->advances = out->computes = mode == 1 || mode == 3;
    } else if (field(word, 10, 2) == 2) { /* offset in a register */
        out->reads = register_at(word, RN) | register_at(word, RM);
        if (!vector && opcode == 0)
            out->reads |= register_at(word, RD);
        if (!vector && opcode != 0 && !prefetch)
            out->changes = register_at(word, RD);
        out->computes = true;
        return;
    } else if (field(word, 10, 2) == 0) { /* atomic */
        access_at(word, 0, out);
        out->reads = register_at(word, RM);
        out->changes = register_at(word, RD);
        return;
    } else { /* with authentication, and what may come */
        out->reads = all_registers_of(word);
        return;
    }
    if (!vector && !prefetch)
        move_registers(word, opcode != 0, size == 3 && opcode == 1, false, out);
}

/* Exclusive, acquiring and releasing; compare and swap. */
static void effect_of_exclusive(uint32_t word, struct hf_effect *out)
{
    const bool load = (word & 0x00400000) != 0, other = (word & 0x00800000) != 0,
               both = (word & 0x00200000) != 0;
    access_at(word, 0, out);
    if (both && (other || (word & 0x80000000) == 0)) { /* cas, casp */
        out->reads = register_at(word, RD) | register_at(word, RM);
        if (!other)
            out->reads |= out->reads << 1;
        out->reads &= (UINT32_C(1) << HF_REGISTERS) - 1;
        return;
    }
    move_registers(word, load, false, both, out);
    if (!load)
        out->changes |= register_at(word, RM);
}

static void effect_of_memory(uint32_t word, struct hf_effect *out)
{
    if (is_literal(word)) {
        if ((word & 0x04000000) == 0 && field(word, 30, 2) != 3)
            out->changes = register_at(word, RD);
    } else if (is(word, 0x3a000000, 0x28000000)) {
        effect_of_pair(word, out);
    } else if (is(word, 0x3a000000, 0x38000000)) {
        effect_of_single(word, out);
    } else if (is(word, 0x3f000000, 0x08000000)) {
        effect_of_exclusive(word, out);
    } else if (is(word, 0x3f200c00, 0x19000000)) { /* ldapur, stlur */
        const unsigned size = field(word, 30, 2), opcode = field(word, 22, 2);
        access_at(word, signed_field(word, 12, 9), out);
        move_registers(word, opcode != 0, size == 3 && opcode == 1, false, out);
    } else if (is(word, 0xbe000000, 0x0c000000)) { /* vectors */
        access_at(word, 0, out);
        out->advances = (word & 0x00800000) != 0;
        out->reads = out->advances ? register_at(word, RM) : 0;
    } else {
        out->reads = all_registers_of(word);
    }
}

/* Registers of vectors and of numbers have the same places. Conversions to them are those with the
 * opcodes 2, 3 and 7. */
static void effect_of_vectors(uint32_t word, struct hf_effect *out)
{
    const bool converts = is(word, 0x5f20fc00, 0x1e200000) || is(word, 0x5f200000, 0x1e000000);
    const unsigned opcode = field(word, 16, 3);
    if (is(word, 0xfffffc00, 0x9e670000)) /* fmov, by which compilers keep a register's value */
        out->hides = register_at(word, RN);
    else if ((converts && (opcode == 2 || opcode == 3 || opcode == 7)) ||
             is(word, 0xbfe0fc00, 0x0e000c00) || is(word, 0xffe0fc00, 0x4e001c00)) /* dup, ins */
        out->reads = register_at(word, RN);
}

static void effect_of_branches(uint32_t word, struct hf_effect *out)
{
    enum { ARGUMENTS = 9, RESULTS = 2 };
    const uint32_t scratch = (UINT32_C(1) << 19) - 1;
    if (is(word, 0x7e000000, 0x34000000) || is(word, 0x7e000000, 0x36000000)) {
        out->reads = register_at(word, RD); /* cbz, tbz and their kind */
    } else if (is(word, 0x7e000000, 0x74000000)) {
        out->reads = register_at(word, RD) | register_at(word, RM);
    } else if (is(word, 0xfc000000, 0x94000000) || is_call_of_system(word)) {
        out->passes = ARGUMENTS;
    } else if (is_indirect(word, true)) {
        /* Only a call by x1 may be that of a thread-local variable's descriptor, which changes x0
         * alone (ELF for the Arm 64-bit Architecture, "TLS descriptors"). */
        out->passes = ARGUMENTS;
        out->reads = register_at(word, RN);
        out->changes = field(word, RN, 5) == 1 ? 1 : scratch;
    } else if (is_indirect(word, false)) {
        out->passes = ARGUMENTS;
        out->reads = register_at(word, RN);
        out->indirect = register_at(word, RN);
    } else if (is_return(word)) {
        out->passes = RESULTS;
    } else if (is(word, 0xffc00000, 0xd5000000)) { /* system registers and instructions */
        if ((word & 0x00200000) != 0)
            out->changes = register_at(word, RD);
        else
            out->reads = register_at(word, RD);
    }
}

static void effect(const unsigned char *bytes, uint64_t address, struct hf_effect *out)
{
    const uint32_t word = word_at(bytes);
    *out = (struct hf_effect){
        .to = HF_REGISTER_NONE,
        .base = HF_REGISTER_NONE,
        .stored = {HF_REGISTER_NONE, HF_REGISTER_NONE},
        .loaded = {HF_REGISTER_NONE, HF_REGISTER_NONE},
    };
    if (is(word, 0x1c000000, 0x10000000))
        effect_of_immediates(word, address, out);
    else if (is(word, 0x1c000000, 0x14000000))
        effect_of_branches(word, out);
    else if (is(word, 0x0a000000, 0x08000000))
        effect_of_memory(word, out);
    else if (is(word, 0x0e000000, 0x0a000000))
        effect_of_registers(word, out);
    else if (is(word, 0x0e000000, 0x0e000000))
        effect_of_vectors(word, out);
    else if (!is_trap(word))
        out->reads = all_registers_of(word);
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_landing_pad(uint32_t word)
{
    return word == 0xd503245f || word == 0xd50324df || /* bti c, bti jc */
           word == 0xd503233f || word == 0xd503237f;   /* paciasp, pacibsp */
}

static bool is_padding(const unsigned char *bytes, size_t size)
{
    if (size % WORD != 0)
        return false;
    for (size_t at = 0; at < size; at += WORD) {
        const uint32_t word = word_at(bytes + at);
        if (word != 0xd503201f && !is_trap(word)) /* nop */
            return false;
    }
    return true;
}

/* The landing pad that code begins with, if there was one. Returns how many words it has. */
static size_t begin(const unsigned char *before, size_t capacity, uint64_t address, uint32_t *words)
{
    if (capacity < WORD || address % WORD != 0 || !is_landing_pad(word_at(before)))
        return 0;
    words[0] = 0xd503245f; /* bti c */
    return 1;
}

static size_t finish(const uint32_t *words, size_t count, size_t capacity, unsigned char *out)
{
    const size_t size = count * WORD;
    if (size > capacity)
        return 0;
    memcpy(out, words, size);
    return size;
}

/* By x16 and x17, as a linkage table does: both are the linker's between functions, and a landing
 * pad for calls accepts a jump by them. */
static size_t jump_through(const unsigned char *before, size_t capacity, uint64_t address,
                           uint64_t slot, unsigned char out[HF_CODE_JUMP_MAX])
{
    uint32_t words[4];
    size_t count = begin(before, capacity, address, words);
    const uint64_t here = (address + count * WORD) / PAGE;
    const int64_t pages = (int64_t)(slot / PAGE - here);
    if (address % WORD != 0 || slot % 8 != 0 || pages < -(INT64_C(1) << 20) ||
        pages >= INT64_C(1) << 20)
        return 0;
    const uint32_t low = (uint32_t)pages & 3, high = (uint32_t)((uint64_t)pages >> 2) & 0x7ffff;
    words[count++] = 0x90000010 | low << 29 | high << 5;             /* adrp x16, … */
    words[count++] = 0xf9400211 | (uint32_t)(slot % PAGE / 8) << 10; /* ldr x17, [x16, …] */
    words[count++] = 0xd61f0220;                                     /* br x17 */
    return finish(words, count, capacity, out);
}

static size_t jump_to(const unsigned char *before, size_t capacity, uint64_t address,
                      uint64_t target, unsigned char out[HF_CODE_JUMP_MAX])
{
    uint32_t words[2];
    size_t count = begin(before, capacity, address, words);
    const int64_t distance = (int64_t)(target - (address + count * WORD));
    if (distance % WORD != 0 || distance < -(INT64_C(1) << 27) || distance >= INT64_C(1) << 27)
        return 0;
    words[count++] = 0x14000000 | ((uint32_t)((uint64_t)distance / WORD) & 0x3ffffff); /* b … */
    return finish(words, count, capacity, out);
}

const struct hf_code hf_code_aarch64 = {
    .decode = decode,
    .effect = effect,
    .is_padding = is_padding,
    .jump_through = jump_through,
    .jump_to = jump_to,
};
