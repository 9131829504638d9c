/*
 * The ELF reader: everything that can be asked about a file in memory (walk.h), names by patterns,
 * and the search for known allocators' strings.
 */
#include "fuzz.h"
#include "loader/elf/elf_names.h"
#include "loader/foreign/allocator_strings.h"

#include "../loader/inspect/walk.h"

#include <stdlib.h>
#include <string.h>

static bool visit(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    (void)context;
    ck_assert_uint_le(pattern, 1);
    ck_assert(pattern == 1 ? strncmp(symbol->name, "PyInit_", 7) == 0
                           : strcmp(symbol->name, "malloc") == 0);
    return true;
}

static void search(const struct image *image)
{
    static const char *const patterns[] = {"malloc", "PyInit_*"};
    const char *found[HF_ALLOCATOR_COUNT] = {NULL};
    struct hf_names names;
    struct hf_elf elf;
    ck_assert_int_eq(hf_names_prepare(&names, patterns, 2), 0);
    if (hf_elf_open_memory(&elf, image->data, image->size) != 0)
        return;
    ck_assert_int_le(hf_names_visit(&names, &elf, HF_ELF_DYNSYM, visit, NULL), 0);
    ck_assert_int_le(hf_names_visit(&names, &elf, HF_ELF_SYMTAB, visit, NULL), 0);
    ck_assert_int_le(hf_elf_scan(&elf, found, UINT64_C(1) << 20), 0);
    hf_elf_close(&elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image image = {malloc(size > 0 ? size : 1), size};
    ck_assert_ptr_nonnull(image.data);
    if (size > 0)
        memcpy(image.data, data, size);
    walk(&image);
    search(&image);
    free(image.data);
    return 0;
}
