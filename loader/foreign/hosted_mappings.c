/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the record of the object whose mappings are served, sealed. It is written once, in a routing
 * pass (under the loader's lock), and read without a lock: the pointer to its code is stored last.
 * See hosted_mappings.h.
 */
#include "loader/foreign/hosted_mappings.h"

#include "alloc/base/seal.h"
#include "alloc/owner/foreign_pages.h"
#include "loader/foreign/asking.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct record {
    bool (*meet)(const struct hf_object *interpreter, struct hf_mapping_host *out);
    struct hf_mapping_host host;
    struct hf_span code;
};
static HF_SEALED_UNION(struct record, record) table HF_SEALED;

const struct hf_span *hf_hosted_mappings_code;
static atomic_bool in_vain; /* see hosted_mappings.h */

void hf_hosted_mappings_offer(bool (*meet)(const struct hf_object *interpreter,
                                           struct hf_mapping_host *out))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.record.meet = meet;
    hf_seal_close(&seal);
}

/* Where the object's code begins and ends; empty if that is unknown. */
static struct hf_span code_of(const struct hf_object *object)
{
    struct hf_span code = {UINTPTR_MAX, 0};
    struct hf_object with_headers = *object;
    hf_object_segments(&with_headers);
    for (size_t i = 0; i < with_headers.headers_count; i++) {
        const ElfW(Phdr) *header = &with_headers.headers[i];
        const uintptr_t start = object->base + header->p_vaddr, end = start + header->p_memsz;
        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0)
            continue;
        code.start = start < code.start ? start : code.start;
        code.end = end > code.end ? end : code.end;
    }
    return code.end != 0 ? code : (struct hf_span){0, 0};
}

void hf_hosted_mappings_look(const struct hf_object *interpreter)
{
    struct hf_mapping_host host;
    struct hf_seal seal;
    const struct hf_span code = code_of(interpreter);
    if (hf_hosted_mappings_code != NULL || code.end == 0 || table.record.meet == NULL ||
        !table.record.meet(interpreter, &host) || !hf_seal_open(&seal))
        return;
    table.record.host = host;
    table.record.code = code;
    hf_seal_close(&seal);
    __atomic_store_n(&hf_hosted_mappings_code, &table.record.code, __ATOMIC_RELEASE);
}

void *hf_hosted_mappings_map(hf_mmap_function *real, const struct hf_mapping_call *call)
{
    const struct hf_mapping_host *host = &table.record.host;
    const int saved_errno = errno;
    bool by_region = false;
    if (!host->is_its(call, in_vain, &by_region))
        return NULL;
    void *at = by_region && call->size % HF_HOSTED_GRANULE == 0
                   ? hf_hosted_map(host->hosted, call->size, host->alignment, call->protection)
                   : NULL;
    if (at == NULL) {
        at = real(call->address, call->size, call->protection, call->flags, call->file,
                  call->offset);
        if (call->address != NULL && (at == MAP_FAILED || (uintptr_t)at % host->alignment != 0))
            in_vain = true;
        if (at == MAP_FAILED)
            return at;
        (void)hf_foreign_pages_set(at, call->size, host->number);
        hf_asking_begin();
    }
    errno = saved_errno;
    return at;
}

bool hf_hosted_mappings_has(const void *address, size_t size)
{
    const struct hf_hosted *hosted = table.record.host.hosted;
    const uintptr_t start = (uintptr_t)address, end = start + size;
    if (hf_hosted_mappings_code == NULL || size == 0 || end < start ||
        end > hf_region.base + hf_region.size)
        return false;
    for (uintptr_t at = start & -HF_HOSTED_GRANULE; at < end; at += HF_HOSTED_GRANULE)
        if (hf_hosted_of((const void *)at) != hosted)
            return false;
    return true;
}
