/*
 * Prints what the reader of ELF files sees in a file, a fact a line, for test_peer.py.
 *
 * Usage: dump FILE
 */
#include "loader/elf/elf_file.h"

#include <inttypes.h>
#include <stdio.h>

static bool print_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    printf("%s\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%u\t%d\t%s\t%s\t%s\n",
           (const char *)context, symbol->index, symbol->value, symbol->size, symbol->type,
           symbol->binding, symbol->visibility, symbol->defined, symbol->name,
           symbol->version != NULL ? symbol->version : "",
           symbol->library != NULL ? symbol->library : "");
    return true;
}

int main(int count, char **arguments)
{
    static char dynamic[] = "dynsym", all[] = "symtab";
    struct hf_elf elf;
    Elf64_Shdr section;
    const char *name;
    if (count != 2 || hf_elf_open(&elf, arguments[1]) != 0)
        return 1;
    for (size_t cursor = 0; hf_elf_section(&elf, &cursor, &section, &name);)
        printf("section\t%zu\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu32
               "\t%" PRIu32 "\n",
               cursor - 1, name, section.sh_addr, section.sh_offset, section.sh_size,
               section.sh_entsize, section.sh_link, section.sh_info);
    for (size_t cursor = 0; (name = hf_elf_needed(&elf, &cursor)) != NULL;)
        printf("needed\t%s\n", name);
    name = hf_elf_tag_string(&elf, DT_SONAME);
    printf("soname\t%s\n", name != NULL ? name : "");
    hf_elf_symbols(&elf, HF_ELF_DYNSYM, print_symbol, dynamic);
    hf_elf_symbols(&elf, HF_ELF_SYMTAB, print_symbol, all);
    hf_elf_close(&elf);
    return ferror(stdout) != 0;
}
