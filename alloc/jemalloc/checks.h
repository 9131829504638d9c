/*
 * HOMEFREE_CONF=checks:full: every block is followed by bytes that a write past its end changes,
 * and records its requested size. Part of jemalloc's tail (fast_path.h).
 *
 * A block of `size` bytes gets at least HF_GUARD more: up to HF_CANARY_MAX bytes of a pattern after
 * the requested size, and that size in the block's last word. Both depend on the address and on
 * secrets of the process, so that they cannot be forged without having been read. The usable size
 * of a block is its requested size. There are no thread caches, so a slab's bitmap tells for every
 * block whether it is free.
 *
 * Owns hf_checks_full and the secrets, written once while the heap starts; no lock. The functions
 * may be called in any thread on a block that the caller owns.
 */
#ifndef HOMEFREE_JEMALLOC_CHECKS_H
#define HOMEFREE_JEMALLOC_CHECKS_H

#include "seam.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HF_GUARD = 16, HF_CANARY_MAX = 64 };

bool hf_checks_full;
static uint64_t hf_check_secrets[2];

static void hf_checks_boot(void)
{
    if (syscall(SYS_getrandom, hf_check_secrets, sizeof hf_check_secrets, GRND_NONBLOCK) !=
        (long)sizeof hf_check_secrets) {
        const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes from the kernel */
        if (random != NULL)
            memcpy(hf_check_secrets, random, sizeof hf_check_secrets);
    }
    hf_checks_full = true;
}

static uint64_t hf_check_word(const void *ptr, unsigned which)
{
    uint64_t x = ((uintptr_t)ptr ^ hf_check_secrets[which]) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32 ^ hf_check_secrets[1 - which]) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 29;
}

/* The pattern's byte at an address: never ASCII, zero, 0x80 or 0xff, which most programs write. A
 * write of the very byte that is there goes undetected. */
static unsigned char hf_check_byte(uint64_t pattern, uintptr_t address)
{
    unsigned char byte = (unsigned char)(pattern >> address % 8 * 8) | 0x80;
    return byte == 0x80 || byte == 0xff ? byte ^ 0x22 : byte;
}

static size_t hf_check_canary(size_t usable, size_t size)
{
    size_t room = usable - sizeof(uint64_t) - size;
    return room < HF_CANARY_MAX ? room : HF_CANARY_MAX;
}

/* Whether a block of this size with its guard is possible; if not, sets errno. */
static bool hf_check_room(size_t size)
{
    if (size <= PTRDIFF_MAX - HF_GUARD)
        return true;
    set_errno(ENOMEM);
    return false;
}

static void hf_check_mark(void *ptr, size_t usable, size_t size)
{
    unsigned char *bytes = ptr;
    uint64_t pattern = hf_check_word(ptr, 0), sealed = size ^ hf_check_word(ptr, 1);
    size_t canary = hf_check_canary(usable, size);
    for (size_t i = size; i < size + canary; i++)
        bytes[i] = hf_check_byte(pattern, (uintptr_t)ptr + i);
    memcpy(bytes + usable - sizeof sealed, &sealed, sizeof sealed);
}

/* Keeps the secrets out of the contents of a block that grows. */
static void hf_check_wipe(void *ptr, size_t usable, size_t size)
{
    memset((char *)ptr + size, 0, hf_check_canary(usable, size));
    memset((char *)ptr + usable - sizeof(uint64_t), 0, sizeof(uint64_t));
}

/* The requested size, as far as the block records it; 1 for 0, because 0 means no block. */
static size_t hf_check_asked(const void *ptr, size_t usable)
{
    uint64_t sealed;
    memcpy(&sealed, (const char *)ptr + usable - sizeof sealed, sizeof sealed);
    size_t size = sealed ^ hf_check_word(ptr, 1);
    if (size > usable - HF_GUARD)
        return usable;
    return size != 0 ? size : 1;
}

/* The requested size; ends the process if the guard was overwritten. */
static size_t hf_check_verify(const void *ptr, size_t usable, const void *caller,
                              enum hf_corruption purpose)
{
    const unsigned char *bytes = ptr;
    uint64_t sealed;
    memcpy(&sealed, bytes + usable - sizeof sealed, sizeof sealed);
    size_t size = sealed ^ hf_check_word(ptr, 1);
    if (usable < HF_GUARD || size > usable - HF_GUARD)
        hf_heap_overflowed(ptr, caller, purpose, SIZE_MAX);
    uint64_t pattern = hf_check_word(ptr, 0);
    unsigned different = 0;
    size_t canary = hf_check_canary(usable, size);
    for (size_t i = size; i < size + canary; i++)
        different |= bytes[i] ^ hf_check_byte(pattern, (uintptr_t)ptr + i);
    if (different != 0)
        hf_heap_overflowed(ptr, caller, purpose, size);
    return size;
}

#endif
