/*
 * Making a copy of a shared object private. Nothing that it needs is loaded: dlopen() pretends that
 * libraries whose names begin with 'l' are there, and that they define what begins with 's'.
 */
#include "fuzz.h"

#include <dlfcn.h>

static char library;

static void *open_library(const char *name, int mode)
{
    (void)mode;
    return name[0] == 'l' ? &library : NULL;
}

static void *find_symbol(void *handle, const char *name)
{
    ck_assert_ptr_eq(handle, &library);
    return name[0] == 's' ? &library : NULL;
}

#define dlopen open_library
#define dlsym  find_symbol
#include "satellites/adopt/private/needed.c"
#include "satellites/adopt/private/patch_copy.c"

struct copied {
    const uint8_t *original;
    size_t size, changed;
};

static void read_copy(unsigned char *out, size_t size)
{
    if (size > 0)
        ck_assert_int_eq(pread(fuzz_descriptor(0), out, size, 0), (ssize_t)size);
}

/* What must hold of a copy: its own symbols are ordinary ones. */
static bool is_private(const struct hf_elf_symbol *symbol, void *context)
{
    const bool *libraries = context;
    ck_assert(symbol->binding != STB_GNU_UNIQUE || !symbol->defined || *libraries);
    return true;
}

static void check(size_t size)
{
    struct hf_elf elf;
    size_t cursor = 0;
    bool libraries = false;
    const char *name;
    /* Where a table lies over the headers, what is patched in it may damage them. */
    const bool opened = hf_elf_open_descriptor(&elf, fuzz_descriptor(0)) == 0;
    if (opened && hf_elf_dynamic(&elf) == 0) {
        while ((name = hf_elf_needed(&elf, &cursor)) != NULL)
            libraries = libraries || name[0] == 'l';
        (void)hf_elf_symbols(&elf, HF_ELF_DYNSYM, is_private, &libraries);
    }
    if (opened)
        ck_assert_uint_eq(elf.size, size);
    hf_elf_close(&elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)fuzz_file(0, data, size);
    const int result = hf_copy_patch(fuzz_descriptor(0), "/nowhere");
    ck_assert(result == 0 || result == -ENOEXEC || result == -ENOTSUP);
    unsigned char *once = malloc(size + 1), *twice = malloc(size + 1);
    ck_assert(once != NULL && twice != NULL);
    read_copy(once, size);
    ck_assert_int_eq(lseek(fuzz_descriptor(0), 0, SEEK_END), (off_t)size);
    if (result == 0) {
        check(size);
        (void)hf_copy_patch(fuzz_descriptor(0), "/nowhere");
        read_copy(twice, size);
        ck_assert_int_eq(lseek(fuzz_descriptor(0), 0, SEEK_END), (off_t)size);
    }
    free(once);
    free(twice);
    return 0;
}
