/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Machine instructions, as far as it matters who refers to what: lengths, targets of direct calls
 * and jumps, addresses relative to the program counter and, where several instructions form an
 * address, what becomes of registers. The seam to the machines: code_x86.c, which alone includes
 * the disassembler, and code_aarch64.c. Every build has both, so that files for the other machine
 * can be examined.
 *
 * Owns: nothing, keeps nothing. Bytes are hostile: whatever they are, decoding reads none behind
 * their end and takes constant time. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_CODE_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hf_code_kind {
    HF_CODE_OTHER,
    HF_CODE_CALL,   /* a direct call */
    HF_CODE_JUMP,   /* a direct, unconditional jump */
    HF_CODE_BRANCH, /* a direct, conditional jump */
    HF_CODE_END     /* what follows is not reached from here: a return, an indirect jump, a trap */
};

/* Registers by number. As a base, 31 is the stack pointer. */
#define HF_REGISTERS     31
#define HF_REGISTER_NONE 32

enum hf_code_result {
    HF_RESULT_NONE,
    HF_RESULT_ADDRESS, /* `value` */
    HF_RESULT_PAGE,    /* `value`, to which another instruction adds the address in the page */
    HF_RESULT_SUM,     /* the base and `offset` */
    HF_RESULT_ONE_OF   /* the value of one of the registers in `sources` */
};

/* What an instruction does with registers. */
struct hf_effect {
    enum hf_code_result result;
    unsigned to; /* the register of the result */
    uint64_t value;
    uint32_t sources;
    unsigned base; /* or HF_REGISTER_NONE */
    int64_t offset;
    bool accesses;      /* memory at the base and `offset` */
    bool advances;      /* and changes the base */
    unsigned stored[2]; /* registers that are stored there, or HF_REGISTER_NONE */
    unsigned loaded[2]; /* whole registers that are loaded from there, likewise */
    uint32_t reads;     /* registers whose values go elsewhere: all that may */
    uint32_t hides;     /* registers whose values go where they may come back from, untouched */
    uint32_t changes;   /* registers that have other values afterwards: none that may not */
    unsigned passes;    /* so many registers, from the first on, go to other functions */
    bool computes;      /* the registers that it changes may lead to a place in the function */
    uint32_t indirect;  /* the register with the address of a jump */
};

struct hf_instruction {
    enum hf_code_kind kind;
    unsigned length;  /* bytes */
    uint64_t target;  /* of a call, jump or branch */
    uint64_t operand; /* the address of a memory operand relative to the program counter, or 0 */
    bool forms;       /* a part of an address; see struct hf_effect */
};

#define HF_CODE_JUMP_MAX 16
#define HF_CODE_BLOCK    64

struct hf_code {
    /*
     * Decodes the instruction at `bytes`, of which `size` can be read and which is at `address` in
     * its object. Returns false if it is none.
     */
    bool (*decode)(const unsigned char *bytes, size_t size, uint64_t address,
                   struct hf_instruction *out);

    /*
     * What the instruction at `bytes`, which could be decoded, does with registers. NULL where each
     * address stands in one instruction; otherwise instructions are words.
     */
    void (*effect)(const unsigned char *bytes, uint64_t address, struct hf_effect *out);

    /* Whether bytes are what compilers and linkers put between functions: no-ops and traps. */
    bool (*is_padding)(const unsigned char *bytes, size_t size);

    /*
     * Writes code that jumps to where the word at `slot` points, for a function at `address` whose
     * first bytes are `before`, in `capacity` bytes. A landing pad for indirect calls (IBT, BTI) at
     * its beginning stays. Arguments and the stack are left alone. Returns the size; 0 if there is
     * no room, or the slot is out of reach.
     */
    size_t (*jump_through)(const unsigned char *before, size_t capacity, uint64_t address,
                           uint64_t slot, unsigned char out[HF_CODE_JUMP_MAX]);

    /* The same for a jump to code at `target`, if that is shorter; otherwise NULL. */
    size_t (*jump_to)(const unsigned char *before, size_t capacity, uint64_t address,
                      uint64_t target, unsigned char out[HF_CODE_JUMP_MAX]);

    /* Whether the instruction adds a constant to an address that is not one of the stack. NULL
     * where that is not known. */
    bool (*moves_address)(const unsigned char *bytes, size_t size);

    /*
     * Where `effect` is NULL: finds the offsets in `bytes`, from `first` to `end`, at which four
     * bytes may be the displacement of an instruction that refers to an address relative to the
     * program counter. A quick test on the bytes in front of them, from the first of `bytes` on: it
     * may find bytes that are none, and never leaves one out. The offsets are ascending; returns
     * how many there are. `end - first` is at most HF_CODE_BLOCK.
     */
    size_t (*may_refer)(const unsigned char *bytes, size_t first, size_t end,
                        size_t offsets[HF_CODE_BLOCK]);

    /* Likewise: whether those at `offset` can only be that of a call or jump. */
    bool (*may_branch)(const unsigned char *bytes, size_t offset);

    /* Likewise, for one byte at `offset`, the displacement of a short jump. */
    bool (*may_branch_near)(const unsigned char *bytes, size_t offset);
};

extern const struct hf_code hf_code_x86, hf_code_aarch64;

#endif
