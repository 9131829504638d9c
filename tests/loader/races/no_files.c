/* The reader of ELF files where no object has a file, for tests of mmap_tracking.c alone. */
#include "loader/foreign/allocator_strings.h"

#include <errno.h>

int hf_elf_open(struct hf_elf *elf, const char *path)
{
    (void)elf;
    (void)path;
    return -ENOENT;
}

void hf_elf_close(struct hf_elf *elf)
{
    (void)elf;
}

bool hf_elf_segment(const struct hf_elf *elf, size_t *cursor, Elf64_Phdr *out)
{
    (void)elf;
    (void)cursor;
    (void)out;
    return false;
}

bool hf_elf_section(struct hf_elf *elf, size_t *cursor, Elf64_Shdr *out, const char **name)
{
    (void)elf;
    (void)cursor;
    (void)out;
    (void)name;
    return false;
}

int hf_elf_scan(struct hf_elf *elf, const char *found[HF_ALLOCATOR_COUNT], uint64_t limit)
{
    (void)elf;
    (void)found;
    (void)limit;
    return -ENOENT;
}
