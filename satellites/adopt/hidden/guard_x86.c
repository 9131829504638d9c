/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guard.h. Owns nothing.
 *
 * A guard saves every register that a call may change and a compiler may believe unchanged, because
 * it has seen the function that is guarded (gcc's -fipa-ra); vector registers aside, which the
 * question leaves alone.
 */
#include "satellites/adopt/hidden/guard.h"

#include "satellites/adopt/hidden/code.h"

#include <stdbool.h>
#include <string.h>

static const unsigned char pad[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
enum { NEAR_JUMP = 5 };                                      /* jmp rel32 */

/* The size of the landing pad at the beginning. */
static size_t padding_of(const unsigned char *bytes, size_t size)
{
    return size >= sizeof pad && memcmp(bytes, pad, sizeof pad) == 0 ? sizeof pad : 0;
}

/* ---- what can be displaced ------------------------------------------------------------------ */

/* The offset of an instruction's displacement, if there is just one place for it; 0 otherwise. */
static unsigned displacement_at(const unsigned char *bytes, uint64_t address,
                                const struct hf_instruction *instruction)
{
    const int32_t wanted = (int32_t)(instruction->operand - address - instruction->length);
    unsigned found = 0;
    for (unsigned at = 1; at + sizeof wanted <= instruction->length; at++)
        if (memcmp(bytes + at, &wanted, sizeof wanted) == 0) {
            if (found != 0)
                return 0;
            found = at;
        }
    return found;
}

/* Whether a branch or jump has a form with a displacement of four bytes. */
static bool has_wide_form(const unsigned char *bytes, const struct hf_instruction *instruction)
{
    if (instruction->kind == HF_CODE_JUMP)
        return bytes[0] == 0xeb || bytes[0] == 0xe9;
    return (bytes[0] & 0xf0) == 0x70 || (bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80);
}

/* Whether an instruction does the same elsewhere, when it is written anew. A call would leave a
 * return address in the guard, about which unwinders know nothing. */
static bool can_move(const unsigned char *bytes, uint64_t address,
                     const struct hf_instruction *instruction)
{
    switch (instruction->kind) {
    case HF_CODE_OTHER:
        return instruction->operand == 0 || displacement_at(bytes, address, instruction) != 0;
    case HF_CODE_JUMP:
    case HF_CODE_BRANCH:
        return has_wide_form(bytes, instruction);
    default:
        return false;
    }
}

/* Whether something in the function jumps to its beginning or into its first bytes. */
static bool is_target(const unsigned char *bytes, size_t size, uint64_t address, size_t first)
{
    struct hf_instruction instruction;
    for (size_t at = 0; at < size; at += instruction.length) {
        if (!hf_code_x86.decode(bytes + at, size - at, address + at, &instruction))
            return true;
        if (instruction.target - address < first &&
            (instruction.kind != HF_CODE_CALL || instruction.target != address) &&
            (instruction.kind == HF_CODE_CALL || instruction.kind == HF_CODE_JUMP ||
             instruction.kind == HF_CODE_BRANCH))
            return true;
    }
    return false;
}

size_t hf_guard_displaced(const unsigned char *bytes, size_t size, uint64_t address)
{
    const size_t start = padding_of(bytes, size);
    size_t at = start;
    while (at < start + NEAR_JUMP) {
        struct hf_instruction instruction;
        if (at >= size || !hf_code_x86.decode(bytes + at, size - at, address + at, &instruction) ||
            !can_move(bytes + at, address + at, &instruction))
            return 0;
        at += instruction.length;
        if (instruction.kind == HF_CODE_JUMP)
            break;
    }
    return at < start + NEAR_JUMP || at > size || at > HF_GUARD_DISPLACED_MAX ||
                   is_target(bytes, size, address, at)
               ? 0
               : at;
}

size_t hf_guard_first(const unsigned char *bytes, size_t size, uint64_t address)
{
    struct hf_instruction instruction;
    if (!hf_code_x86.decode(bytes, size, address, &instruction) ||
        instruction.length < HF_GUARD_SHORT || instruction.length > size ||
        address % 8 > 8 - HF_GUARD_SHORT || !can_move(bytes, address, &instruction) ||
        is_target(bytes, size, address, instruction.length))
        return 0;
    return instruction.length;
}

int hf_guard_enter_by(uint64_t address, uint64_t to, uint64_t at,
                      unsigned char first[HF_GUARD_SHORT], unsigned char second[HF_GUARD_LONG])
{
    const int64_t near = (int64_t)(to - (address + HF_GUARD_SHORT));
    const int64_t far = (int64_t)(at - (to + HF_GUARD_LONG));
    const int32_t displacement = (int32_t)far;
    first[0] = 0xeb; /* jmp rel8 */
    first[1] = (unsigned char)near;
    second[0] = 0xe9; /* jmp rel32 */
    memcpy(second + 1, &displacement, sizeof displacement);
    return near == (int8_t)near && far == displacement;
}

/* ---- writing -------------------------------------------------------------------------------- */

struct writer {
    unsigned char *out;
    uint64_t at; /* the address of out[0] */
    size_t size;
    bool failed;
};

static void put(struct writer *writer, const void *bytes, size_t size)
{
    if (writer->failed || size > HF_GUARD_MAX - writer->size) {
        writer->failed = true;
        return;
    }
    memcpy(writer->out + writer->size, bytes, size);
    writer->size += size;
}

/* Writes the last four bytes of an instruction: how far it is from its end to a target. */
static void put_distance(struct writer *writer, uint64_t target)
{
    const int64_t distance = (int64_t)(target - (writer->at + writer->size + sizeof(int32_t)));
    const int32_t displacement = (int32_t)distance;
    writer->failed |= distance != displacement;
    put(writer, &displacement, sizeof displacement);
}

static void put_branch(struct writer *writer, const unsigned char *bytes,
                       const struct hf_instruction *instruction)
{
    static const unsigned char jump = 0xe9;
    const unsigned char condition = bytes[0] == 0x0f ? bytes[1] & 0x0f : bytes[0] & 0x0f;
    const unsigned char branch[] = {0x0f, 0x80 | condition};
    if (instruction->kind == HF_CODE_JUMP)
        put(writer, &jump, sizeof jump);
    else
        put(writer, branch, sizeof branch);
    put_distance(writer, instruction->target);
}

/* Writes an instruction of another address. */
static void put_moved(struct writer *writer, const unsigned char *bytes, uint64_t address,
                      const struct hf_instruction *instruction)
{
    if (instruction->kind != HF_CODE_OTHER) {
        put_branch(writer, bytes, instruction);
        return;
    }
    const size_t start = writer->size;
    put(writer, bytes, instruction->length);
    if (instruction->operand == 0 || writer->failed)
        return;
    const int64_t distance =
        (int64_t)(instruction->operand - (writer->at + start + instruction->length));
    const int32_t displacement = (int32_t)distance;
    writer->failed |= distance != displacement;
    memcpy(writer->out + start + displacement_at(bytes, address, instruction), &displacement,
           sizeof displacement);
}

static void put_displaced(struct writer *writer, const unsigned char *bytes, size_t displaced,
                          uint64_t address)
{
    static const unsigned char jump = 0xe9;
    struct hf_instruction instruction = {.kind = HF_CODE_OTHER};
    for (size_t at = padding_of(bytes, displaced); at < displaced; at += instruction.length) {
        if (!hf_code_x86.decode(bytes + at, displaced - at, address + at, &instruction)) {
            writer->failed = true;
            return;
        }
        put_moved(writer, bytes + at, address + at, &instruction);
    }
    if (instruction.kind == HF_CODE_JUMP)
        return;
    put(writer, &jump, sizeof jump);
    put_distance(writer, address + displaced);
}

size_t hf_guard_write(const unsigned char *bytes, size_t displaced, uint64_t address,
                      enum hf_guard guard, uint64_t at, uint64_t question, uint64_t function,
                      unsigned char out[HF_GUARD_MAX])
{
    /* Nine words: the stack is then aligned as a call wants it. */
    static const unsigned char save[] = {
        0x50,       /* push %rax */
        0x51,       /* push %rcx */
        0x52,       /* push %rdx */
        0x56,       /* push %rsi */
        0x57,       /* push %rdi */
        0x41, 0x50, /* push %r8 */
        0x41, 0x51, /* push %r9 */
        0x41, 0x52, /* push %r10 */
        0x41, 0x53, /* push %r11 */
    };
    static const unsigned char second[] = {0x48, 0x89, 0xf7}; /* mov %rsi,%rdi */
    static const unsigned char pointed[] = {
        0x48, 0x85, 0xff, /* test %rdi,%rdi */
        0x74, 0x03,       /* je, over the next */
        0x48, 0x8b, 0x3f, /* mov (%rdi),%rdi */
    };
    static const unsigned char call[] = {0xff, 0x15}; /* call *disp32(%rip) */
    static const unsigned char test[] = {0x84, 0xc0}; /* test %al,%al */
    static const unsigned char restore[] = {
        0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59, 0x58,
    };
    static const unsigned char not_equal[] = {0x0f, 0x85}; /* jne disp32 */
    static const unsigned char jump[] = {0xff, 0x25};      /* jmp *disp32(%rip) */
    struct writer writer = {.out = out, .at = at};
    put(&writer, save, sizeof save);
    if (guard == HF_GUARD_SECOND)
        put(&writer, second, sizeof second);
    else if (guard == HF_GUARD_POINTED)
        put(&writer, pointed, sizeof pointed);
    put(&writer, call, sizeof call);
    put_distance(&writer, question);
    put(&writer, test, sizeof test);
    put(&writer, restore, sizeof restore); /* which leaves flags alone */
    put(&writer, not_equal, sizeof not_equal);
    const size_t branch = writer.size;
    put_distance(&writer, at);
    put_displaced(&writer, bytes, displaced, address);
    const int32_t distance = (int32_t)(writer.size - branch - sizeof distance);
    memcpy(out + branch, &distance, sizeof distance);
    put(&writer, jump, sizeof jump);
    put_distance(&writer, function);
    return writer.failed ? 0 : writer.size;
}

int hf_guard_enter(const unsigned char *bytes, size_t displaced, uint64_t address, uint64_t at,
                   unsigned char out[HF_GUARD_DISPLACED_MAX])
{
    static const unsigned char trap = 0xcc;
    const size_t start = padding_of(bytes, displaced);
    const int64_t distance = (int64_t)(at - (address + start + NEAR_JUMP));
    const int32_t displacement = (int32_t)distance;
    memset(out, trap, displaced);
    memcpy(out, pad, start);
    out[start] = 0xe9; /* jmp rel32 */
    memcpy(out + start + 1, &displacement, sizeof displacement);
    return distance == displacement;
}
