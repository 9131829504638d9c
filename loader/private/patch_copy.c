/*
 * Owns nothing but handles of needed libraries, which are never closed: a copy is not either.
 *
 * Three things would make a copy share what it should own.
 * - STB_GNU_UNIQUE: glibc keeps one definition of such a symbol for the whole process, across
 *   RTLD_LOCAL. The copy's become ordinary ones, but for those that a library it needs defines too:
 *   libstdc++'s inline statics must be the same for everyone who handles its objects.
 * - A definition of the same name in the global scope (the original, loaded with RTLD_GLOBAL) comes
 *   before the copy's own. DT_SYMBOLIC puts the copy's own first.
 * - DT_SONAME: an object that needs the original by name would be given the copy. It goes.
 */
#include "loader/private/patch_copy.h"

#include "loader/elf/elf_file.h"
#include "loader/elf/origin.h"

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
    const char *folder; /* the original's */
    void **libraries;   /* handles */
    size_t library_count, library_room;
    uint64_t symbols; /* offset of the dynamic symbols in the file */
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

/* ---- the libraries that it needs ---- */

/* One entry of a search path, with $ORIGIN replaced; false where it is too long or has another of
 * the loader's variables in it. */
static bool expand(const char *folder, const char *entry, size_t length, const char *name,
                   char out[PATH_MAX])
{
    const int written = hf_origin_look(entry, length).others
                            ? -1
                            : hf_origin_expand(entry, length, folder, out, PATH_MAX);
    const size_t size = strlen(name) + 2;
    if (written < 0 || size > PATH_MAX - (size_t)written)
        return false;
    out[written] = '/';
    memcpy(out + written + 1, name, size - 1);
    return true;
}

/* The first file of that name on a search path. */
static bool find_on(const char *path, const char *folder, const char *name, char out[PATH_MAX])
{
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        if (length != 0 && expand(folder, path, length, name, out) && access(out, R_OK) == 0)
            return true;
        path += length;
        path += *path == ':';
    }
    return false;
}

/* In the loader's order: what is loaded already, RPATH, LD_LIBRARY_PATH, RUNPATH, the rest. */
static void *open_needed(struct patch *patch, const char *name)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL)
        return handle;
    char file[PATH_MAX];
    const char *runpath = hf_elf_tag_string(&patch->elf, DT_RUNPATH);
    const char *rpath = runpath == NULL ? hf_elf_tag_string(&patch->elf, DT_RPATH) : NULL;
    if (strchr(name, '/') != NULL)
        return NULL; /* found by the loader itself */
    if (find_on(rpath, patch->folder, name, file) ||
        (!find_on(secure_getenv("LD_LIBRARY_PATH"), "", name, file) &&
         find_on(runpath, patch->folder, name, file)))
        return dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

/* What cannot be opened is for the loader to complain about, when the copy is loaded. */
static void open_libraries(struct patch *patch)
{
    size_t cursor = 0;
    const char *name;
    while ((name = hf_elf_needed(&patch->elf, &cursor)) != NULL) {
        if (patch->library_count == patch->library_room) {
            size_t room = patch->library_room * 2 + 16;
            void **bigger = reallocarray(patch->libraries, room, sizeof *bigger);
            if (bigger == NULL) {
                patch->error = -ENOMEM;
                return;
            }
            patch->libraries = bigger;
            patch->library_room = room;
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

/* In the file's order of preference: an entry that can say DT_SYMBOLIC. */
enum seat { SEAT_SONAME, SEAT_SPARE, SEAT_COUNT, SEAT_NONE };

/* Of the dynamic section; each entry is read and written by itself. Where no entry can be spared,
 * the copy goes without DT_SYMBOLIC: it is private then as long as nobody has loaded another one
 * with RTLD_GLOBAL. */
static void patch_dynamic(struct patch *patch)
{
    size_t cursor = 0;
    Elf64_Phdr header;
    while (hf_elf_segment(&patch->elf, &cursor, &header))
        if (header.p_type == PT_DYNAMIC)
            break;
    uint64_t start, available;
    if (header.p_type != PT_DYNAMIC ||
        hf_elf_locate(&patch->elf, header.p_vaddr, &start, &available) != 0)
        return;
    uint64_t seats[SEAT_NONE] = {0};
    bool symbolic = false;
    const size_t count = available / sizeof(Elf64_Dyn);
    for (size_t i = 0, ended = 0; i < count && ended < 2 && patch->error == 0; i++) {
        uint64_t offset = start + i * sizeof(Elf64_Dyn);
        Elf64_Dyn entry;
        if (hf_elf_read(&patch->elf, offset, &entry, sizeof entry) != 0)
            break;
        if (ended == 1) {
            if (entry.d_tag == DT_NULL)
                seats[SEAT_SPARE] = offset - sizeof entry;
            break;
        }
        switch (entry.d_tag) {
        case DT_NULL:
            ended = 1;
            break;
        case DT_FLAGS:
            entry.d_un.d_val |= DF_SYMBOLIC;
            patch->error = write_at(patch, &entry, sizeof entry, offset);
            symbolic = true;
            break;
        case DT_SYMBOLIC:
            symbolic = true;
            break;
        case DT_SONAME:
            seats[SEAT_SONAME] = offset;
            break;
        case DT_RELACOUNT:
            seats[SEAT_COUNT] = offset;
            break;
        default:
            break;
        }
    }
    for (int seat = 0; seat < SEAT_NONE && patch->error == 0; seat++) {
        if (seats[seat] == 0 || (symbolic && seat != SEAT_SONAME))
            continue;
        /* Twice does no harm. */
        Elf64_Dyn entry = {.d_tag = DT_SYMBOLIC};
        patch->error = write_at(patch, &entry, sizeof entry, seats[seat]);
        symbolic = true;
    }
}

int hf_copy_patch(int descriptor, const char *folder)
{
    struct patch patch = {.descriptor = descriptor, .folder = folder};
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
    hf_elf_close(&patch.elf);
    free(patch.libraries);
    return error == -ENOENT ? -ENOEXEC : error;
}
