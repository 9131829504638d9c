/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the stubs of functions that map memory do. Part of stubs.c, which includes this file after
 * the macros that it uses, and which says when stubs may be called. Owns nothing: mappings are
 * recorded by foreign/mmap_tracking.h; the region serves some (foreign/hosted_mappings.h).
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_STUBS_MAPPING_H
#define HOMEFREE_LOADER_INTERPOSE_STUBS_MAPPING_H

/* Mappings are recorded after the call, unmappings before it: see foreign_pages.h. The return
 * address identifies the caller. A function that tail-calls mmap(2) is attributed to its own
 * caller; allocators do not do that, because they check the result. */

typedef int munmap_function(void *address, size_t size);
typedef void *mremap_function(void *address, size_t size, size_t new_size, int flags,
                              void *new_address);
typedef void *sbrk_function(intptr_t increment);
typedef int brk_function(void *address);

INLINE void *map(enum hf_routed function, size_t index, void *address, size_t size, int protection,
                 int flags, int file, off_t offset)
{
    hf_mmap_function *real = REAL(hf_mmap_function, function, index);
    void *at = NULL;
    if (HF_UNLIKELY(hf_hosted_mappings_calls(CALLER)))
        at = hf_hosted_mappings_map(
            real, &(struct hf_mapping_call){address, size, protection, flags, file, offset});
    if (at != NULL)
        return at;
    at = real(address, size, protection, flags, file, offset);
    return hf_tracking_mapped(at, size, flags, CALLER);
}

INLINE int unmap(enum hf_routed function, size_t index, void *address, size_t size)
{
    if (HF_UNLIKELY(hf_owned(address)) && hf_hosted_mappings_has(address, size)) {
        hf_hosted_unmap(address, size);
        return 0;
    }
    if (HF_LIKELY(!hf_tracking_has(address, size)))
        return CALL(munmap_function, function, index)(address, size);
    unsigned number = hf_tracking_unmapping(address, size);
    int result = REAL(munmap_function, function, index)(address, size);
    return result == 0 ? 0 : (int)hf_tracking_unmap_failed(address, size, number, result);
}

INLINE void *remap(enum hf_routed function, size_t index, void *address, size_t size,
                   size_t new_size, int flags, void *new_address)
{
    if (HF_UNLIKELY(hf_owned(address)) && hf_hosted_mappings_has(address, size)) {
        errno = ENOMEM; /* mimalloc never does that; the region keeps its books */
        return MAP_FAILED;
    }
    if (HF_LIKELY(!hf_tracking_has(address, size)))
        return CALL(mremap_function, function, index)(address, size, new_size, flags, new_address);
    struct hf_tracking_move move = hf_tracking_moving(address, size, new_size, flags);
    void *at = REAL(mremap_function, function, index)(address, size, new_size, flags, new_address);
    return hf_tracking_moved(&move, at);
}

INLINE void *move_break(enum hf_routed function, size_t index, intptr_t increment)
{
    void *before = REAL(sbrk_function, function, index)(increment);
    return hf_tracking_break(before, increment, CALLER);
}

INLINE int set_break(enum hf_routed function, size_t index, void *address)
{
    hf_tracking_break_is_shared();
    return CALL(brk_function, function, index)(address);
}

/*
 * syscall(2) takes as many arguments as the system call. On x86-64 the seventh is on the stack,
 * where a caller that passed fewer keeps other variables. They must not be written, not even with
 * the same value, because some calls return twice (vfork(2)). The stub therefore lacks that
 * parameter, and all system calls except those that map memory end in a jump.
 */
#if defined(__x86_64__)
#    define IN_REGISTERS(last) long number, long a, long b, long c, long d, long e
#    define PASS(last)         number, a, b, c, d, e
#else
#    define IN_REGISTERS(last) long number, long a, long b, long c, long d, long e, long last
#    define PASS(last)         number, a, b, c, d, e, last
#endif
typedef long syscall_function(long number, long a, long b, long c, long d, long e, long f);
typedef long jump_function(IN_REGISTERS(f));

/* mmap(2): the one that has a seventh argument. */
INLINE long map_by_syscall(enum hf_routed function, size_t index, long number, long a, long b,
                           long c, long d, long e, long f)
{
    void *at = (void *)REAL(syscall_function, function, index)(number, a, b, c, d, e, f);
    return (long)hf_tracking_mapped(at, (size_t)b, (int)d, CALLER);
}

/* The others that change mappings. GCC may make a jump of a call that ends a function, and a
 * seventh argument of it would overwrite the caller's stack. */
INLINE long change_by_syscall(enum hf_routed function, size_t index, IN_REGISTERS(f))
{
    jump_function *real = REAL(jump_function, function, index);
    if (number == SYS_munmap) {
        unsigned owner = hf_tracking_unmapping((void *)a, (size_t)b);
        long result = real(PASS(f));
        return result == 0 ? 0 : hf_tracking_unmap_failed((void *)a, (size_t)b, owner, result);
    }
    if (number == SYS_mremap) {
        struct hf_tracking_move move = hf_tracking_moving((void *)a, (size_t)b, (size_t)c, (int)d);
        void *at = (void *)real(PASS(f));
        return (long)hf_tracking_moved(&move, at);
    }
    hf_tracking_break_is_shared();
    return real(PASS(f));
}

INLINE long call_system(enum hf_routed function, size_t index, void *mapping, void *changing,
                        IN_REGISTERS(f))
{
    if (HF_UNLIKELY(number == SYS_mmap)) {
        __asm__("" : "+r"(mapping)); /* hides from GCC that the prototypes differ */
        return ((jump_function *)mapping)(PASS(f));
    }
    if (HF_UNLIKELY(number == SYS_munmap || number == SYS_mremap || number == SYS_brk))
        return ((jump_function *)changing)(PASS(f));
    return CALL(jump_function, function, index)(PASS(f));
}

#endif
