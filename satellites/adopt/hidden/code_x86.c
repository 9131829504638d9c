/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; see code.h. Zydis decodes, in its minimal mode: lengths, displacements and
 * immediate values, without the semantics of instructions.
 */
#include "satellites/adopt/hidden/code.h"

#include <Zydis/Zydis.h>

#include <string.h>

static enum hf_code_kind kind_of(const ZydisDecodedInstruction *instruction, bool relative)
{
    /* One-byte opcodes and the second of two bytes; see the opcode map of the Intel SDM, vol. 2. */
    const unsigned opcode = instruction->opcode;
    if (instruction->opcode_map == ZYDIS_OPCODE_MAP_0F) {
        if (relative)
            return HF_CODE_BRANCH;
        return opcode == 0x0b || opcode == 0xb9 || opcode == 0xff ? HF_CODE_END : HF_CODE_OTHER;
    }
    if (instruction->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
        return relative ? HF_CODE_BRANCH : HF_CODE_OTHER;
    if (relative)
        return opcode == 0xe8                     ? HF_CODE_CALL
               : opcode == 0xe9 || opcode == 0xeb ? HF_CODE_JUMP
                                                  : HF_CODE_BRANCH;
    if (opcode == 0xc2 || opcode == 0xc3 || opcode == 0xcc || opcode == 0xf4)
        return HF_CODE_END;
    if (opcode == 0xff && (instruction->raw.modrm.reg == 4 || instruction->raw.modrm.reg == 5))
        return HF_CODE_END;
    return HF_CODE_OTHER;
}

static bool decode_raw(const unsigned char *bytes, size_t size, ZydisDecodedInstruction *out)
{
    ZydisDecoder decoder;
    ZydisDecoderContext context;
    return ZYAN_SUCCESS(
               ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
           ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, bytes, size, out));
}

static bool is_padding(const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ZydisDecodedInstruction instruction;
        if (!decode_raw(bytes + at, size - at, &instruction))
            return false;
        const bool wide = instruction.opcode_map == ZYDIS_OPCODE_MAP_0F;
        if (wide ? instruction.opcode != 0x1f
                 : instruction.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT ||
                       (instruction.opcode != 0x90 && instruction.opcode != 0xcc))
            return false;
        at += instruction.length;
    }
    return true;
}

static bool decode(const unsigned char *bytes, size_t size, uint64_t address,
                   struct hf_instruction *out)
{
    ZydisDecodedInstruction instruction;
    if (!decode_raw(bytes, size, &instruction))
        return false;
    const bool relative = instruction.raw.imm[0].is_relative;
    const uint64_t next = address + instruction.length;
    *out = (struct hf_instruction){.kind = kind_of(&instruction, relative),
                                   .length = instruction.length};
    if (relative)
        out->target = next + (uint64_t)instruction.raw.imm[0].value.s;
    if ((instruction.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0 && instruction.raw.modrm.mod == 0 &&
        instruction.raw.modrm.rm == 5)
        out->operand = next + (uint64_t)instruction.raw.disp.value;
    return true;
}

static bool may_branch(const unsigned char *bytes, size_t offset)
{
    if (offset == 0)
        return false;
    const unsigned before = bytes[offset - 1];
    /* call, jmp; jcc, and xbegin, of two bytes */
    return before == 0xe8 || before == 0xe9 ||
           (offset >= 2 && ((bytes[offset - 2] == 0x0f && (before & 0xf0) == 0x80) ||
                            (bytes[offset - 2] == 0xc7 && before == 0xf8)));
}

static bool may_branch_near(const unsigned char *bytes, size_t offset)
{
    if (offset == 0)
        return false;
    const unsigned before = bytes[offset - 1];
    /* jcc, jmp, loop and jrcxz with a displacement of one byte */
    return (before & 0xf0) == 0x70 || before == 0xeb || (before & 0xfc) == 0xe0;
}

static size_t may_refer(const unsigned char *bytes, size_t first, size_t end,
                        size_t offsets[HF_CODE_BLOCK])
{
    /* Two bytes of nothing stand in front of the object's first ones. The loop over a whole block
     * is one that compilers turn into vector instructions. */
    unsigned char copy[2 + HF_CODE_BLOCK] = {0}, marks[HF_CODE_BLOCK];
    const size_t before = first < 2 ? first : 2, size = end - first;
    memcpy(copy + 2 - before, bytes + first - before, before + size);
    for (size_t i = 0; i < HF_CODE_BLOCK; i++) {
        const unsigned char one = copy[i + 1], other = copy[i];
        /* As may_branch(); or a ModRM byte of a memory operand at rip + disp32. */
        marks[i] = (unsigned char)(((one & 0xc7) == 0x05) | ((one & 0xfe) == 0xe8) |
                                   ((other == 0x0f) & ((one & 0xf0) == 0x80)) |
                                   ((other == 0xc7) & (one == 0xf8)));
    }
    size_t count = 0;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, marks + i, sizeof word);
        for (; word != 0; word &= word - 1) {
            const size_t offset = i + (size_t)__builtin_ctzll(word) / 8;
            if (offset < size && first + offset > 0)
                offsets[count++] = first + offset;
        }
    }
    return count;
}

/* add, sub, lea */
static bool moves_address(const unsigned char *bytes, size_t size)
{
    if (size < 4 || (bytes[0] & 0xf8) != 0x48)
        return false;
    const unsigned mode = bytes[2] >> 6, operation = bytes[2] >> 3 & 7, base = bytes[2] & 7;
    if (bytes[1] == 0x8d)
        return (mode == 1 || mode == 2) && base != 4 && base != 5;
    return (bytes[1] == 0x83 || bytes[1] == 0x81) && mode == 3 && base != 4 &&
           (operation == 0 || operation == 5);
}

/* Writes a jump whose displacement is its last part, behind the landing pad that was there. */
static size_t write_jump(const unsigned char *before, size_t capacity, uint64_t address,
                         const unsigned char *opcode, size_t opcode_size, uint64_t target,
                         unsigned char out[HF_CODE_JUMP_MAX])
{
    static const unsigned char pad[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    const bool padded = capacity >= sizeof pad && memcmp(before, pad, sizeof pad) == 0;
    const size_t start = padded ? sizeof pad : 0;
    const size_t size = start + opcode_size + sizeof(int32_t);
    const int64_t distance = (int64_t)(target - (address + size));
    if (capacity < size || distance != (int32_t)distance)
        return 0;
    const int32_t displacement = (int32_t)distance;
    memcpy(out, pad, start);
    memcpy(out + start, opcode, opcode_size);
    memcpy(out + start + opcode_size, &displacement, sizeof displacement);
    return size;
}

static size_t jump_through(const unsigned char *before, size_t capacity, uint64_t address,
                           uint64_t slot, unsigned char out[HF_CODE_JUMP_MAX])
{
    static const unsigned char jump[] = {0xff, 0x25}; /* jmp *disp32(%rip) */
    return write_jump(before, capacity, address, jump, sizeof jump, slot, out);
}

static size_t jump_to(const unsigned char *before, size_t capacity, uint64_t address,
                      uint64_t target, unsigned char out[HF_CODE_JUMP_MAX])
{
    static const unsigned char jump[] = {0xe9}; /* jmp rel32 */
    return write_jump(before, capacity, address, jump, sizeof jump, target, out);
}

const struct hf_code hf_code_x86 = {
    .decode = decode,
    .is_padding = is_padding,
    .jump_through = jump_through,
    .jump_to = jump_to,
    .moves_address = moves_address,
    .may_refer = may_refer,
    .may_branch = may_branch,
    .may_branch_near = may_branch_near,
};
