/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. A PLT entry tells the loader's resolver which slot it stands for. What linkers
 * write on x86-64:
 *
 *   GNU ld, gold, lld   the slot points behind the entry's jump, or to a second entry: code that
 *                       pushes the relocation's number (with IBT, an ENDBR64 stands before it)
 *   mold                the entry loads the relocation's number into r11; the slot points to the
 *                       table's first entry, which pushes r11
 *
 * On aarch64 the entry leaves the slot's address in x16 for the table's first entry, to which the
 * slot points (System V ABI for the Arm 64-bit architecture, "Procedure Linkage Table").
 */
#include "loader/interpose/lazy_slots.h"

#include <string.h>

#if defined(__x86_64__)

static bool starts_with(const unsigned char **code, const void *bytes, size_t size)
{
    if (memcmp(*code, bytes, size) != 0)
        return false;
    *code += size;
    return true;
}

bool hf_lazy_is_unresolved(const struct hf_slot *slot, const void *value)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const unsigned char push_number[] = {0x68}, push_r11[] = {0x41, 0x53};
    const unsigned char *code = value;
    uint32_t number;
    starts_with(&code, endbr64, sizeof endbr64);
    if (starts_with(&code, push_r11, sizeof push_r11))
        return true;
    if (!starts_with(&code, push_number, sizeof push_number))
        return false;
    memcpy(&number, code, sizeof number);
    return number == slot->relocation;
}

__asm__(".pushsection .text\n"
        ".globl hf_lazy_call\n"
        ".hidden hf_lazy_call\n"
        ".type hf_lazy_call, @function\n"
        "hf_lazy_call:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "mov %rcx, %r11\n"
        "jmp *%rdx\n"
        ".cfi_endproc\n"
        ".size hf_lazy_call, .-hf_lazy_call\n"
        ".popsection\n");

#elif defined(__aarch64__)

bool hf_lazy_is_unresolved(const struct hf_slot *slot, const void *value)
{
    enum { BTI_C = 0xd503245f, PUSH_X16_X30 = 0xa9bf7bf0 };
    const uint32_t *code = value;
    (void)slot; /* x16 names it */
    if ((uintptr_t)code % sizeof *code != 0)
        return false;
    return code[code[0] == (uint32_t)BTI_C] == (uint32_t)PUSH_X16_X30;
}

__asm__(".pushsection .text\n"
        ".globl hf_lazy_call\n"
        ".hidden hf_lazy_call\n"
        ".type hf_lazy_call, %function\n"
        "hf_lazy_call:\n"
        ".cfi_startproc\n"
        "hint #34\n" /* BTI c */
        "mov x16, x4\n"
        "mov x17, x2\n"
        "br x17\n"
        ".cfi_endproc\n"
        ".size hf_lazy_call, .-hf_lazy_call\n"
        ".popsection\n");

#else
#    error "lazily bound slots are known on x86-64 and aarch64"
#endif
