/*
 * Tenants: allocators that keep their own books, but on pages of the region.
 *
 * A tenant's pages are lent: jemalloc never sees them, so an address there has no block of the
 * heap. What is freed there goes to the tenant, which decides whether it may be freed here and now.
 * The one tenant today is CPython's pymalloc (loader/python/).
 *
 * A map with a byte for each granule of the region says who lives there. It is reserved when the
 * first tenant moves in; before that the question costs one load.
 */
#ifndef HOMEFREE_TENANT_H
#define HOMEFREE_TENANT_H

#include "internal.h"

/* Lent pages come in whole granules, and begin at a multiple of one. */
#define HF_TENANT_GRANULE_BITS 18
#define HF_TENANT_GRANULE      ((size_t)1 << HF_TENANT_GRANULE_BITS)

/* What a tenant is asked; ptr is always in its pages. caller: an address in the code that called.
 * Each keeps its function's own conventions, or ends the process (fatal.h). */
struct hf_tenant {
    void (*free)(void *ptr, const void *caller);
    void *(*realloc)(void *ptr, size_t size, const void *caller);
    size_t (*usable_size)(const void *ptr, const void *caller);
    void (*describe)(const void *ptr, struct hf_owner *owner);
};

/*
 * Lends pages: `size` bytes, at a multiple of `alignment`; both are multiples of HF_TENANT_GRANULE,
 * the alignment a power of two. The bytes are not cleared when others had them before; they are
 * readable and writable. At most HF_TENANTS_MAX different tenants, which live for ever.
 * Result: NULL where the region is full, the system refuses memory, or the process is forking. Any
 * thread; no lock but the region's.
 */
void *hf_tenant_map(const struct hf_tenant *tenant, size_t size, size_t alignment);
#define HF_TENANTS_MAX 4

/* Takes lent pages back, all that one hf_tenant_map() gave. Any thread. */
void hf_tenant_unmap(void *address, size_t size);

/* For fork (fork_gate.c): gives back what was taken back while the gate was closed. */
void hf_tenant_catch_up(void);

/* Who lives at an address of the region; NULL where no pages are lent. Lock-free. */
extern const uint8_t *hf_tenant_who __attribute__((visibility("hidden")));
const struct hf_tenant *hf_tenant_at(size_t granule);
static inline const struct hf_tenant *hf_tenant_of(const void *ptr)
{
    const uint8_t *who = __atomic_load_n(&hf_tenant_who, __ATOMIC_ACQUIRE);
    if (HF_LIKELY(who == NULL))
        return NULL;
    size_t granule = ((uintptr_t)ptr - hf_region.base) >> HF_TENANT_GRANULE_BITS;
    return HF_LIKELY(__atomic_load_n(&who[granule], __ATOMIC_RELAXED) == 0) ? NULL
                                                                            : hf_tenant_at(granule);
}

/* For hf_owner_of(): fills owner where an address of the region is a tenant's. What a tenant has
 * outside is a neighbour's (foreign.h, HF_RELEASE_TENANT). */
bool hf_tenant_describe(const void *ptr, struct hf_owner *owner);

#endif
