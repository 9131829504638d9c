/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the symbol nearest to an address. Owns nothing, takes no lock. See symbol.h.
 *
 * Constraint: the process may be about to end, inside a signal handler or with locks held, so
 * nothing here allocates, waits or uses stdio. Loaded data is trusted as far as the dynamic linker
 * trusts it; the file is not.
 */
#include "alloc/base/symbol.h"

#include "alloc/base/uncancelled.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct nearest {
    uintptr_t address; /* to find, as a file address */
    uintptr_t start;   /* of the best symbol so far */
    struct hf_symbol *best;
};

/* Whether a symbol is a better match than the best so far; if so, records it. */
static bool is_nearer(struct nearest *nearest, const ElfW(Sym) *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_value == 0 ||
        symbol->st_value > nearest->address ||
        (type != STT_OBJECT && type != STT_FUNC && type != STT_NOTYPE))
        return false;
    bool covers = nearest->address - symbol->st_value < symbol->st_size;
    if (covers == nearest->best->covers && symbol->st_value <= nearest->start)
        return false;
    if (!covers && nearest->best->covers)
        return false;
    nearest->best->covers = covers;
    nearest->start = symbol->st_value;
    return true;
}

static void find_exported(const struct hf_object *object, struct nearest *nearest)
{
    size_t count = hf_object_symbols_end(object);
    for (size_t i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if (symbol->st_name >= object->strings_size || !is_nearer(nearest, symbol))
            continue;
        const char *name = object->strings + symbol->st_name;
        size_t length = strnlen(name, sizeof nearest->best->name - 1);
        memcpy(nearest->best->name, name, length);
        nearest->best->name[length] = '\0';
    }
}

static bool read_at(int file, void *buffer, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && hf_pread_uncancelled(file, buffer, size, offset) == (ssize_t)size;
}

static void read_name(int file, const ElfW(Shdr) *strings, uint32_t name, struct nearest *nearest)
{
    nearest->best->name[0] = '\0';
    if (name >= strings->sh_size)
        return;
    uint64_t left = strings->sh_size - name;
    size_t size =
        left < sizeof nearest->best->name - 1 ? (size_t)left : sizeof nearest->best->name - 1;
    if (strings->sh_offset <= INT64_MAX / 2 &&
        read_at(file, nearest->best->name, size, strings->sh_offset + name))
        nearest->best->name[size] = '\0';
}

/* Local symbols exist only in the file, which may be hostile or replaced by now. It is used only if
 * its header equals the loaded one, and every read is bounded. */
static void find_local(const struct hf_object *object, const ElfW(Ehdr) *loaded,
                       struct nearest *nearest)
{
    enum { SYMBOLS = 128, SECTIONS_MOST = 4096, SYMBOLS_MOST = 1 << 20 };
    ElfW(Ehdr) header;
    ElfW(Shdr) section, strings;
    ElfW(Sym) symbols[SYMBOLS];
    int file = hf_open_uncancelled(hf_dynlink_name(object->map),
                                   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (file < 0)
        return;
    bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                read_at(file, &header, sizeof header, 0) &&
                memcmp(&header, loaded, sizeof header) == 0 && header.e_shentsize == sizeof section;
    for (unsigned i = 0; good && i < header.e_shnum && i < SECTIONS_MOST; i++) {
        if (header.e_shoff > INT64_MAX / 2 ||
            !read_at(file, &section, sizeof section, header.e_shoff + i * sizeof section))
            break;
        if (section.sh_type != SHT_SYMTAB || section.sh_link >= header.e_shnum ||
            section.sh_offset > INT64_MAX / 2 ||
            !read_at(file, &strings, sizeof strings,
                     header.e_shoff + section.sh_link * sizeof strings))
            continue;
        uint64_t count = section.sh_size / sizeof symbols[0];
        for (uint64_t at = 0; at < count && at < SYMBOLS_MOST; at += SYMBOLS) {
            size_t some = count - at < SYMBOLS ? (size_t)(count - at) : SYMBOLS;
            if (!read_at(file, symbols, some * sizeof symbols[0],
                         section.sh_offset + at * sizeof symbols[0]))
                break;
            for (size_t s = 0; s < some; s++)
                if (is_nearer(nearest, &symbols[s]))
                    read_name(file, &strings, symbols[s].st_name, nearest);
        }
        break;
    }
    hf_close_uncancelled(file);
}

bool hf_symbol_find(const struct hf_object *object, uintptr_t address, struct hf_symbol *out)
{
    struct nearest nearest = {.address = address - object->base, .best = out};
    const ElfW(Ehdr) *loaded = hf_object_header(object);
    *out = (struct hf_symbol){.covers = false};
    find_exported(object, &nearest);
    if (!out->covers && loaded != NULL)
        find_local(object, loaded, &nearest);
    out->offset = nearest.address - nearest.start;
    return out->name[0] != '\0';
}
