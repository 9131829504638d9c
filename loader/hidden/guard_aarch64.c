/*
 * See guard.h. Nothing is guarded on this processor.
 */
#include "loader/hidden/guard.h"

size_t hf_guard_displaced(const unsigned char *bytes, size_t size, uint64_t address)
{
    (void)bytes;
    (void)size;
    (void)address;
    return 0;
}

size_t hf_guard_write(const unsigned char *bytes, size_t displaced, uint64_t address,
                      enum hf_guard guard, uint64_t at, uint64_t question, uint64_t function,
                      unsigned char out[HF_GUARD_MAX])
{
    (void)bytes;
    (void)displaced;
    (void)address;
    (void)guard;
    (void)at;
    (void)question;
    (void)function;
    (void)out;
    return 0;
}

int hf_guard_enter(const unsigned char *bytes, size_t displaced, uint64_t address, uint64_t at,
                   unsigned char out[HF_GUARD_DISPLACED_MAX])
{
    (void)bytes;
    (void)displaced;
    (void)address;
    (void)at;
    (void)out;
    return 0;
}
