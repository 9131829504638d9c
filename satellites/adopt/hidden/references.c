/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See references.h. The places are counted by page in a first pass over the code and stored in a
 * second one, which takes less time than sorting them.
 */
#include "satellites/adopt/hidden/references.h"

#include "satellites/adopt/hidden/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DISPLACEMENT = 4 };

static int find_code(struct hf_references *references)
{
    const struct hf_image *image = references->image;
    uint64_t offset = 0;
    references->code = calloc(image->stretches_count + 1, sizeof *references->code);
    if (references->code == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < image->stretches_count; i++) {
        const struct hf_stretch *stretch = &image->stretches[i];
        if (!stretch->code)
            continue;
        references->code[references->code_count++] = (struct hf_code_bytes){*stretch, offset};
        offset += stretch->bytes_size;
        if (offset > UINT32_MAX)
            return -ENOTSUP;
    }
    return 0;
}

/* Counts the places by the page that they refer to, or stores them where the page's begin. */
static void pass(struct hf_references *references, bool store)
{
    size_t offsets[HF_CODE_BLOCK];
    for (size_t i = 0; i < references->code_count; i++) {
        const struct hf_code_bytes *code = &references->code[i];
        const struct hf_stretch *stretch = &code->stretch;
        const uint64_t size = stretch->bytes_size;
        const uint64_t last = size < DISPLACEMENT ? 0 : size - DISPLACEMENT + 1;
        for (uint64_t block = 0; block < last; block += HF_CODE_BLOCK) {
            const uint64_t end = last - block < HF_CODE_BLOCK ? last : block + HF_CODE_BLOCK;
            const size_t count =
                references->image->code->may_refer(stretch->bytes, block, end, offsets);
            for (size_t k = 0; k < count; k++) {
                int32_t displacement;
                memcpy(&displacement, stretch->bytes + offsets[k], sizeof displacement);
                const uint64_t target = stretch->address + offsets[k] + DISPLACEMENT +
                                        (uint64_t)(int64_t)displacement - references->first;
                const uint64_t page = target / HF_REFERENCES_PAGE;
                if (page >= references->pages)
                    continue;
                if (store)
                    references->places[references->starts[page]++] =
                        (uint32_t)(code->offset + offsets[k]);
                else
                    references->starts[page + 1]++;
            }
        }
    }
}

int hf_references_open(struct hf_references *references, const struct hf_image *image)
{
    *references = (struct hf_references){.image = image};
    if (image->code->may_refer == NULL)
        return 0;
    int error = find_code(references);
    if (error != 0 || image->stretches_count == 0)
        return error;
    const struct hf_stretch *end = &image->stretches[image->stretches_count - 1];
    references->first = image->stretches[0].address / HF_REFERENCES_PAGE * HF_REFERENCES_PAGE;
    references->pages = (end->address + end->size - references->first) / HF_REFERENCES_PAGE + 1;
    references->starts = calloc(references->pages + 2, sizeof *references->starts);
    if (references->starts == NULL)
        return -ENOMEM;
    pass(references, false);
    for (uint64_t page = 0; page < references->pages; page++)
        references->starts[page + 1] += references->starts[page];
    references->places =
        malloc((references->starts[references->pages] + 1) * sizeof *references->places);
    if (references->places == NULL)
        return -ENOMEM;
    pass(references, true);
    /* Each start has moved to where the next page's places begin. */
    memmove(references->starts + 1, references->starts,
            references->pages * sizeof *references->starts);
    references->starts[0] = 0;
    return 0;
}

void hf_references_close(struct hf_references *references)
{
    free(references->starts);
    free(references->places);
    free(references->code);
    *references = (struct hf_references){0};
}

size_t hf_references_to_page(const struct hf_references *references, uint64_t address,
                             const uint32_t **places)
{
    const uint64_t page = (address - references->first) / HF_REFERENCES_PAGE;
    if (page >= references->pages)
        return 0;
    *places = references->places + references->starts[page];
    return references->starts[page + 1] - references->starts[page];
}

const struct hf_stretch *hf_references_place(const struct hf_references *references, uint32_t place,
                                             uint64_t *at)
{
    size_t first = 0, end = references->code_count;
    while (end - first > 1) {
        const size_t middle = first + (end - first) / 2;
        if (references->code[middle].offset <= place)
            first = middle;
        else
            end = middle;
    }
    *at = place - references->code[first].offset;
    return &references->code[first].stretch;
}
