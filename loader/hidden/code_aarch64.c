/*
 * Owns nothing; see code.h. On aarch64 nothing is decoded yet, so every plan is refused.
 */
#include "loader/hidden/code.h"

bool hf_code_is_known(uint16_t machine)
{
    (void)machine;
    return false;
}

bool hf_code_decode(const unsigned char *bytes, size_t size, uint64_t address,
                    struct hf_instruction *out)
{
    (void)bytes;
    (void)size;
    (void)address;
    (void)out;
    return false;
}

size_t hf_code_may_refer(const unsigned char *bytes, size_t first, size_t end,
                         size_t offsets[HF_CODE_BLOCK])
{
    (void)bytes;
    (void)first;
    (void)end;
    (void)offsets;
    return 0;
}

bool hf_code_may_branch(const unsigned char *bytes, size_t offset)
{
    (void)bytes;
    (void)offset;
    return false;
}

bool hf_code_may_branch_near(const unsigned char *bytes, size_t offset)
{
    (void)bytes;
    (void)offset;
    return false;
}

bool hf_code_is_padding(const unsigned char *bytes, size_t size)
{
    (void)bytes;
    return size == 0;
}

size_t hf_code_jump_through(const unsigned char *before, size_t room, uint64_t address,
                            uint64_t slot, unsigned char out[HF_CODE_JUMP_MAX])
{
    (void)before;
    (void)room;
    (void)address;
    (void)slot;
    (void)out;
    return 0;
}
