/*
 * Machine instructions, as far as it matters who refers to what: lengths, targets of direct calls
 * and jumps, and addresses relative to the program counter. The seam to the disassembler, which
 * only code_x86.c includes.
 *
 * Owns: nothing, keeps nothing. Bytes are hostile: whatever they are, decoding reads none behind
 * their end and takes constant time. Any thread.
 */
#ifndef HOMEFREE_HIDDEN_CODE_H
#define HOMEFREE_HIDDEN_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest instruction. */
#define HF_CODE_LENGTH_MAX 15

enum hf_code_kind {
    HF_CODE_OTHER,
    HF_CODE_CALL,   /* a direct call */
    HF_CODE_JUMP,   /* a direct, unconditional jump */
    HF_CODE_BRANCH, /* a direct, conditional jump */
    HF_CODE_END     /* what follows is not reached from here: a return, an indirect jump, a trap */
};

struct hf_instruction {
    enum hf_code_kind kind;
    unsigned length;  /* bytes */
    uint64_t target;  /* of a call, jump or branch */
    uint64_t operand; /* the address of a memory operand relative to the program counter, or 0 */
};

/* Whether code for that machine (ELF's e_machine) can be decoded. */
bool hf_code_is_known(uint16_t machine);

/*
 * Decodes the instruction at `bytes`, of which `size` can be read and which is at `address` in its
 * object. Returns false if it is none.
 */
bool hf_code_decode(const unsigned char *bytes, size_t size, uint64_t address,
                    struct hf_instruction *out);

/*
 * Finds the offsets in `bytes`, from `first` to `end`, at which four bytes may be the displacement
 * of an instruction that refers to an address relative to the program counter. A quick test on the
 * bytes in front of them, from the first of `bytes` on: it may find bytes that are none, and never
 * leaves one out. The offsets are ascending; returns how many there are. At most HF_CODE_BLOCK
 * places are looked at: `end - first`.
 */
#define HF_CODE_BLOCK 64
size_t hf_code_may_refer(const unsigned char *bytes, size_t first, size_t end,
                         size_t offsets[HF_CODE_BLOCK]);

/* Whether those at `offset` can only be that of a call or jump, if an instruction's. */
bool hf_code_may_branch(const unsigned char *bytes, size_t offset);

/* The same for one byte at `offset`, the displacement of a short jump. */
bool hf_code_may_branch_near(const unsigned char *bytes, size_t offset);

/* Whether bytes are what compilers and linkers put between functions: no-ops and traps. */
bool hf_code_is_padding(const unsigned char *bytes, size_t size);

/*
 * Writes code that jumps to where the word at `slot` points, for a function at `address` whose
 * first bytes are `before`, in `room` bytes. A landing pad for indirect calls (IBT) at its
 * beginning stays. Arguments and the stack are left alone. Returns the size; 0 if there is no room,
 * or the slot is out of reach.
 */
#define HF_CODE_JUMP_MAX 16
size_t hf_code_jump_through(const unsigned char *before, size_t room, uint64_t address,
                            uint64_t slot, unsigned char out[HF_CODE_JUMP_MAX]);

#endif
