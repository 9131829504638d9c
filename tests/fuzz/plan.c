/*
 * The planner of adoption: an object with an allocator inside, from its bytes to the plan, and the
 * adopted copy that the plan gives. Whatever the file says, only code of the file is replaced, and
 * the copy is a file that the reader accepts.
 */
#include "fuzz.h"
#include "satellites/adopt/adopted_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_plan(const struct hf_plan *plan, const struct hf_image *image)
{
    for (size_t i = 0; i < plan->count; i++) {
        uint64_t available;
        const struct hf_stretch *stretch = hf_image_stretch(image, plan->redirections[i].address);
        ck_assert(stretch != NULL && stretch->code);
        ck_assert_ptr_nonnull(hf_image_at(image, plan->redirections[i].address, &available));
        ck_assert_uint_le(plan->redirections[i].capacity, available);
        ck_assert_uint_le(plan->redirections[i].displaced, available);
        ck_assert((plan->redirections[i].guard != HF_GUARD_NONE) == plan->release_only);
        ck_assert(i == 0 ||
                  plan->redirections[i].address >=
                      plan->redirections[i - 1].address + plan->redirections[i - 1].capacity);
    }
}

static void check_copy(const struct hf_plan *plan, const struct hf_image *image,
                       const uint8_t *data, size_t size)
{
    const struct hf_adopted_facts facts = {"libhomefree.so.1", "/some/directory/it.so", {1, 2}};
    const char *why = NULL;
    struct hf_elf copy;
    const int file = memfd_create("copy", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, data, size), (ssize_t)size);
    if (hf_adopted_write(file, image, plan, &facts, &why) == 0) {
        ck_assert_int_eq(hf_elf_open_descriptor(&copy, file), 0);
        hf_elf_close(&copy);
    }
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_elf elf;
    struct hf_image image;
    struct hf_functions functions;
    struct hf_plan plan;
    if (size > 1 << 16 || hf_elf_open_memory(&elf, data, size) != 0)
        return 0;
    if (hf_image_open(&image, &elf) == 0) {
        if (hf_functions_open(&functions, &image, NULL) == 0) {
            if (hf_plan_make(&plan, &image, &functions) == 0) {
                check_plan(&plan, &image);
                check_copy(&plan, &image, data, size);
            }
            hf_plan_close(&plan);
        }
        hf_functions_close(&functions);
    }
    hf_image_close(&image);
    hf_elf_close(&elf);
    return 0;
}
