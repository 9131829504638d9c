/*
 * The index of all references in an object's code has what a search byte by byte finds, and no
 * more: also where blocks and pages meet. The object is this program.
 */
#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/references.h"
#include "suite.h"

#include <string.h>

static bool has_place(const struct hf_references *references, uint64_t target,
                      const struct hf_stretch *stretch, uint64_t at)
{
    const uint32_t *places = NULL;
    const size_t count = hf_references_to_page(references, target, &places);
    for (size_t i = 0; i < count; i++) {
        uint64_t found;
        const struct hf_stretch *in = hf_references_place(references, places[i], &found);
        if (in->address == stretch->address && found == at)
            return true;
    }
    return false;
}

START_TEST(what_a_search_finds)
{
    struct hf_elf elf;
    struct hf_image image;
    struct hf_references references;
    size_t count = 0, branches = 0, offsets[HF_CODE_BLOCK];
    ck_assert_int_eq(hf_elf_open(&elf, "/proc/self/exe"), 0);
    ck_assert_int_eq(hf_image_open(&image, &elf), 0);
    ck_assert_int_eq(hf_references_open(&references, &image), 0);
    for (size_t i = 0; i < image.stretches_count; i++) {
        const struct hf_stretch *stretch = &image.stretches[i];
        for (uint64_t at = 1;
             stretch->code && references.pages != 0 && at + 4 <= stretch->bytes_size; at++) {
            int32_t displacement;
            const bool branch = image.code->may_branch(stretch->bytes, at);
            if (image.code->may_refer(stretch->bytes, at, at + 1, offsets) == 0) {
                ck_assert(!branch);
                continue;
            }
            memcpy(&displacement, stretch->bytes + at, sizeof displacement);
            const uint64_t target =
                stretch->address + at + 4 + (uint64_t)(int64_t)displacement - references.first;
            if (target / HF_REFERENCES_PAGE >= references.pages)
                continue;
            count++;
            branches += branch;
            ck_assert(has_place(&references, references.first + target, stretch, at));
        }
    }
    ck_assert(branches > 100 || image.code->may_refer == NULL);
    ck_assert_uint_eq(count, references.pages == 0 ? 0 : references.starts[references.pages]);
    hf_references_close(&references);
    hf_image_close(&image);
    hf_elf_close(&elf);
}
END_TEST

int main(void)
{
    return RUN_TESTS("references", what_a_search_finds);
}
