/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing but handles of needed libraries, which are never closed because copies never are.
 * Takes no lock.
 *
 * Three properties would make a copy share state with its original:
 * - STB_GNU_UNIQUE: glibc keeps a single definition of such a symbol per process, across
 *   RTLD_LOCAL. The copy's definitions become ordinary ones, except those that a needed library
 *   also defines: all users of libstdc++'s objects must share its inline statics.
 * - A definition of the same name in the global scope (the original, loaded with RTLD_GLOBAL)
 *   precedes the copy's own. DT_SYMBOLIC puts the copy's own first.
 * - DT_SONAME: an object that needs the original by name would get the copy. It is removed.
 */
#include "satellites/adopt/private/patch_copy.h"

#include "loader/elf/elf_file.h"
#include "satellites/adopt/private/needed.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct patch {
    struct hf_elf elf;
    int descriptor;
    const char *directory; /* the original's */
    void **libraries;      /* handles from dlopen() */
    size_t library_count, library_capacity;
    uint64_t symbols; /* file offset of the dynamic symbols */
    uint64_t symbols_size;
    int error;
};

static int write_at(struct patch *patch, const void *bytes, size_t size, uint64_t offset)
{
    ssize_t written = pwrite(patch->descriptor, bytes, size, (off_t)offset);
    if (written == (ssize_t)size)
        return 0;
    return written < 0 ? -errno : -EIO;
}

/* ---- needed libraries ---- */

/* In the loader's order: loaded objects, RPATH, LD_LIBRARY_PATH, RUNPATH, default directories. */
static void *open_needed(struct patch *patch, const char *name)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL)
        return handle;
    char file[PATH_MAX];
    if (strchr(name, '/') != NULL)
        return NULL; /* the loader finds it by itself */
    if (hf_needed_find(&patch->elf, patch->directory, name, file))
        return dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

/* The loader reports libraries that cannot be opened when it loads the copy. */
static void open_libraries(struct patch *patch)
{
    size_t cursor = 0;
    const char *name;
    while ((name = hf_elf_needed(&patch->elf, &cursor)) != NULL) {
        if (patch->library_count == patch->library_capacity) {
            size_t capacity = patch->library_capacity * 2 + 16;
            void **bigger = reallocarray(patch->libraries, capacity, sizeof *bigger);
            if (bigger == NULL) {
                patch->error = -ENOMEM;
                return;
            }
            patch->libraries = bigger;
            patch->library_capacity = capacity;
        }
        void *handle = open_needed(patch, name);
        if (handle != NULL)
            patch->libraries[patch->library_count++] = handle;
    }
}

/* ---- symbols ---- */

static bool is_shared(const struct patch *patch, const char *name)
{
    for (size_t i = 0; i < patch->library_count; i++)
        if (dlsym(patch->libraries[i], name) != NULL)
            return true;
    return false;
}

static bool patch_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct patch *patch = context;
    if (symbol->binding != STB_GNU_UNIQUE || !symbol->defined || is_shared(patch, symbol->name))
        return true;
    uint64_t place = (uint64_t)symbol->index * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_info);
    if (place >= patch->symbols_size) {
        patch->error = -ENOEXEC;
        return false;
    }
    unsigned char info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, symbol->type);
    patch->error = write_at(patch, &info, sizeof info, patch->symbols + place);
    return patch->error == 0;
}

static void patch_symbols(struct patch *patch)
{
    uint64_t address;
    if (!hf_elf_tag(&patch->elf, DT_SYMTAB, &address))
        return;
    patch->error = hf_elf_locate(&patch->elf, address, &patch->symbols, &patch->symbols_size) != 0
                       ? -ENOEXEC
                       : 0;
    if (patch->error != 0)
        return;
    int error = hf_elf_symbols(&patch->elf, HF_ELF_DYNSYM, patch_symbol, patch);
    if (patch->error == 0 && error != -ENOENT)
        patch->error = error;
}

/* ---- the dynamic section ---- */

/* Entries that can be overwritten with DT_SYMBOLIC, the preferred ones first: DT_SONAME, which has
 * to go anyway; a second DT_NULL at the end; DT_RELACOUNT, which is only an optimisation. */
enum seat { SEAT_SONAME, SEAT_SPARE, SEAT_COUNT, SEAT_NONE };

struct dynamic {
    uint64_t seats[SEAT_NONE]; /* file offsets; 0: there is none */
    bool symbolic;             /* the section already makes the copy symbolic */
};

/* Gets the place of the dynamic section in the file. What follows it is other data: slots, usually,
 * which look like a second DT_NULL until they are filled in. */
static bool locate_dynamic(struct patch *patch, uint64_t *start, uint64_t *size)
{
    Elf64_Phdr header;
    for (size_t cursor = 0; hf_elf_segment(&patch->elf, &cursor, &header);) {
        if (header.p_type != PT_DYNAMIC)
            continue;
        const bool found = hf_elf_locate(&patch->elf, header.p_vaddr, start, size) == 0;
        *size = found && *size > header.p_filesz ? header.p_filesz : *size;
        return found;
    }
    return false;
}

/* Handles one entry before the end of the dynamic section; sets DF_SYMBOLIC if it has DT_FLAGS. */
static void scan_entry(struct patch *patch, struct dynamic *dynamic, Elf64_Dyn *entry,
                       uint64_t offset)
{
    switch (entry->d_tag) {
    case DT_FLAGS:
        entry->d_un.d_val |= DF_SYMBOLIC;
        patch->error = write_at(patch, entry, sizeof *entry, offset);
        dynamic->symbolic = true;
        break;
    case DT_SYMBOLIC:
        dynamic->symbolic = true;
        break;
    case DT_SONAME:
        dynamic->seats[SEAT_SONAME] = offset;
        break;
    case DT_RELACOUNT:
        dynamic->seats[SEAT_COUNT] = offset;
        break;
    default:
        break;
    }
}

/* Reads the section entry by entry, up to its end and one entry beyond. */
static void scan_dynamic(struct patch *patch, struct dynamic *dynamic, uint64_t start,
                         uint64_t size)
{
    const uint64_t count = size / sizeof(Elf64_Dyn);
    uint64_t end = 0; /* offset of the first DT_NULL */
    for (uint64_t i = 0; i < count && patch->error == 0; i++) {
        const uint64_t offset = start + i * sizeof(Elf64_Dyn);
        Elf64_Dyn entry;
        if (hf_elf_read(&patch->elf, offset, &entry, sizeof entry) != 0)
            return;
        if (end != 0) {
            if (entry.d_tag == DT_NULL)
                dynamic->seats[SEAT_SPARE] = end;
            return;
        }
        if (entry.d_tag == DT_NULL)
            end = offset;
        else
            scan_entry(patch, dynamic, &entry, offset);
    }
}

/* Removes DT_SONAME and makes the copy symbolic. If no entry can be spared, the copy goes without
 * DT_SYMBOLIC and stays private as long as no other copy is loaded with RTLD_GLOBAL. */
static void patch_dynamic(struct patch *patch)
{
    struct dynamic dynamic = {{0}, false};
    uint64_t start, size;
    if (!locate_dynamic(patch, &start, &size))
        return;
    scan_dynamic(patch, &dynamic, start, size);
    for (int seat = 0; seat < SEAT_NONE && patch->error == 0; seat++) {
        if (dynamic.seats[seat] == 0 || (dynamic.symbolic && seat != SEAT_SONAME))
            continue;
        /* A second DT_SYMBOLIC in place of DT_SONAME does no harm. */
        const Elf64_Dyn entry = {.d_tag = DT_SYMBOLIC};
        patch->error = write_at(patch, &entry, sizeof entry, dynamic.seats[seat]);
        dynamic.symbolic = true;
    }
}

int hf_copy_patch(int descriptor, const char *directory)
{
    struct patch patch = {.descriptor = descriptor, .directory = directory};
    int error = hf_elf_open_descriptor(&patch.elf, descriptor);
    if (error == 0)
        error = hf_elf_dynamic(&patch.elf);
    if (error == 0) {
        open_libraries(&patch);
        if (patch.error == 0)
            patch_symbols(&patch);
        if (patch.error == 0)
            patch_dynamic(&patch);
        error = patch.error;
    }
    /* What could not be read was not patched, and the copy would not be private. */
    if (patch.elf.trouble != 0)
        error = patch.elf.trouble;
    hf_elf_close(&patch.elf);
    free(patch.libraries);
    return error == -ENOENT ? -ENOEXEC : error;
}
