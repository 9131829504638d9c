/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings of an interpreter's own allocator: the region serves the calls of mmap(2) by which a
 * CPython's mimalloc gets its memory, so that its blocks are told from others' by the range check.
 *
 * A routing pass that meets an interpreter calls hf_hosted_mappings_look(), which asks a higher
 * layer whether the object has such an allocator (loader/host/host.h). From then on the stubs
 * of mmap(2) and munmap(2) come here with the calls of that object's code. Where the region cannot
 * serve a call, the system does, and the pages are recorded as the allocator's.
 *
 * hosted_mappings.c owns the record of the one such object. The functions for stubs may be called
 * from any thread, and preserve errno where they succeed.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_HOSTED_MAPPINGS_H
#define HOMEFREE_LOADER_FOREIGN_HOSTED_MAPPINGS_H

#include "alloc/base/dynlink.h"
#include "alloc/owner/hosted.h"

#include <stdbool.h>
#include <sys/types.h>

/* A call of mmap(2). */
struct hf_mapping_call {
    void *address;
    size_t size;
    int protection, flags, file;
    off_t offset;
};
typedef void *hf_mmap_function(void *address, size_t size, int protection, int flags, int file,
                               off_t offset);

/* The allocator of an object. */
struct hf_mapping_host {
    const struct hf_hosted *hosted;
    unsigned number;  /* of the foreign allocator that has the pages outside the region */
    size_t alignment; /* of what the region gives, at least HF_HOSTED_GRANULE */
    /* Whether a call is the allocator's, and whether the region is to serve it: only where the
     * answer is beyond doubt. in_vain: it once wished for an address that it did not get. */
    bool (*is_its)(const struct hf_mapping_call *call, bool in_vain, bool *by_region);
};

/* ---- for the start and for routing passes ---- */

/* Sets the function that is told of an interpreter, in passes, until one has an allocator whose
 * mappings are served, which it returns. Called once, by the library's constructor (init.c). */
void hf_hosted_mappings_offer(bool (*meet)(const struct hf_object *interpreter,
                                           struct hf_mapping_host *out));
void hf_hosted_mappings_look(const struct hf_object *interpreter);

/* ---- for stubs ---- */

/* The code whose calls count. */
extern const struct hf_span *hf_hosted_mappings_code __attribute__((visibility("hidden")));
static inline bool hf_hosted_mappings_calls(const void *caller)
{
    const struct hf_span *code = __atomic_load_n(&hf_hosted_mappings_code, __ATOMIC_ACQUIRE);
    return HF_UNLIKELY(code != NULL) && (uintptr_t)caller - code->start < code->end - code->start;
}

/* Makes a mapping for that code, if the call is the allocator's; NULL: it is not. MAP_FAILED as
 * from mmap(2). */
void *hf_hosted_mappings_map(hf_mmap_function *real, const struct hf_mapping_call *call);

/* Whether a range is of pages of the region that the allocator has. */
bool hf_hosted_mappings_has(const void *address, size_t size);

#endif
