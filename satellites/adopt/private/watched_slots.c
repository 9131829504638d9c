/* SPDX-License-Identifier: BSD-2-Clause */
/* See watched_slots.h. Owns nothing. */
#include "satellites/adopt/private/watched_slots.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__aarch64__)
#    define R_GLOBAL R_AARCH64_GLOB_DAT
#    define R_JUMP   R_AARCH64_JUMP_SLOT
#else
#    define R_GLOBAL R_X86_64_GLOB_DAT
#    define R_JUMP   R_X86_64_JUMP_SLOT
#endif

/* NULL: none. */
static const struct hf_watched *watched_as(const struct hf_watched *all, const char *name)
{
    while (all->name != NULL && strcmp(name, all->name) != 0)
        all++;
    return all->name != NULL ? all : NULL;
}

/* As the object finds it, with the libraries that it needs. */
static int find_original(const struct hf_watched *function, const struct hf_object *object)
{
    if (function->original == NULL)
        return 0;
    void *original = dlsym((void *)(uintptr_t)object->map, function->name);
    if (original == NULL)
        original = dlsym(RTLD_DEFAULT, function->name);
    if (original == NULL)
        return -ENOTSUP;
    memcpy(function->original, &original, sizeof original);
    return 0;
}

static int protect(uintptr_t address, int protection)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mprotect((void *)(address & -page), page, protection) != 0 ? -errno : 0;
}

/* A weak symbol that nobody defines stays NULL. */
static int change(const struct hf_object *object, const ElfW(Rela) *entry,
                  const struct hf_watched *all)
{
    const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(entry->r_info)];
    if (ELF64_R_SYM(entry->r_info) == 0 || symbol->st_shndx != SHN_UNDEF)
        return 0;
    const char *name = object->strings + symbol->st_name;
    const struct hf_watched *function = watched_as(all, name);
    void **slot = (void **)(object->base + entry->r_offset);
    if (function == NULL)
        return 0;
    if (function->function == NULL || entry->r_addend != 0)
        return -ENOTSUP;
    if (*slot == NULL)
        return 0;
    const bool is_fixed = (uintptr_t)slot - object->relro_start < object->relro_size;
    const unsigned type = (unsigned)ELF64_R_TYPE(entry->r_info);
    if (!is_fixed && type != R_JUMP && type != R_GLOBAL)
        return -ENOTSUP; /* data, which is made new */
    int error = find_original(function, object);
    if (error == 0 && is_fixed)
        error = protect((uintptr_t)slot, PROT_READ | PROT_WRITE);
    if (error == 0)
        __atomic_store_n(slot, function->function, __ATOMIC_RELEASE);
    if (error == 0 && is_fixed)
        error = protect((uintptr_t)slot, PROT_READ);
    return error;
}

int hf_watched_slots_change(const struct hf_object *object, const struct hf_watched *all)
{
    const ElfW(Rela) *entry = object->rela;
    int error = 0;
    for (size_t i = 0; i < object->rela_size / sizeof *entry && error == 0; i++)
        error = change(object, &entry[i], all);
    entry = object->jump_relocations;
    for (size_t i = 0; i < object->jump_relocations_size / sizeof *entry && error == 0; i++)
        error = change(object, &entry[i], all);
    return error;
}

struct search {
    const struct hf_watched *all;
    bool found;
};

static bool see_import(const struct hf_elf_symbol *symbol, void *argument)
{
    struct search *search = argument;
    search->found = !symbol->defined && watched_as(search->all, symbol->name) != NULL;
    return !search->found;
}

int hf_watched_slots_imported(struct hf_elf *elf, const struct hf_watched *all, bool *imported)
{
    struct search search = {all, false};
    const int error = hf_elf_symbols(elf, HF_ELF_DYNSYM, see_import, &search);
    *imported = search.found;
    return error == -ENOENT ? 0 : error;
}
