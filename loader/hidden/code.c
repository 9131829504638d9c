/*
 * See code.h. Owns nothing.
 */
#include "loader/hidden/code.h"

#include <elf.h>

const struct hf_code *hf_code_of(uint16_t machine)
{
    return machine == EM_X86_64 ? &hf_code_x86 : machine == EM_AARCH64 ? &hf_code_aarch64 : NULL;
}
