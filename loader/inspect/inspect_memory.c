/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the memory of an inspection: a chain of blocks that are freed together. No lock; one thread
 * uses one inspection.
 */
#include "loader/inspect/inspect_parts.h"

#include <stdlib.h>
#include <string.h>

struct hf_inspection_memory {
    struct hf_inspection_memory *next;
    _Alignas(max_align_t) char data[];
};

void *hf_inspection_allocate(struct hf_inspection *inspection, size_t size)
{
    struct hf_inspection_memory *block = calloc(1, sizeof *block + size);
    if (block == NULL)
        return NULL;
    block->next = inspection->memory;
    inspection->memory = block;
    return block->data;
}

const char *hf_inspection_copy(struct hf_inspection *inspection, const char *text)
{
    const size_t length = strnlen(text, HF_INSPECTION_STRING_MAX);
    char *copy = hf_inspection_allocate(inspection, length + 1);
    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

void hf_inspection_free(struct hf_inspection *inspection)
{
    while (inspection->memory != NULL) {
        struct hf_inspection_memory *next = inspection->memory->next;
        free(inspection->memory);
        inspection->memory = next;
    }
    const char *why = inspection->why;
    memset(inspection, 0, sizeof *inspection);
    inspection->why = why;
}
