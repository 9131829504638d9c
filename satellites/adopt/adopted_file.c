/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopted_file.h. Owns nothing.
 *
 * The layout of the added segment: program headers, note, symbols, strings, versions, relocations,
 * slots. Its address equals its offset in the file, because readers of a loaded object take e_phoff
 * for an address; the file has a hole in front of it. In a release-only copy, a segment of guards
 * (guard.h) comes before it.
 */
#include "satellites/adopt/adopted_file.h"

#include "loader/elf/origin.h"
#include "loader/foreign/adopted_note.h"
#include "satellites/adopt/hidden/arrays.h"
#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/release_only.h"
#include "satellites/adopt/private/copy_bytes.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEGMENT = 0x10000,  /* the largest page size */
    ENTRIES_MAX = 65536 /* of a dynamic section */
};

struct writing {
    int descriptor;
    const struct hf_image *image;
    struct hf_elf *elf;
    const struct hf_plan *plan;
    const struct hf_adopted_facts *facts;
    const char **why;
    uint64_t address, offset; /* of the added segment */
    unsigned char *bytes;     /* its contents */
    size_t size;
    uint64_t headers, note, symbols, versions, strings, relocations, slots; /* offsets in it */
    size_t note_size;
    size_t strings_size, old_strings_size, relocations_size, old_relocations_size;
    uint64_t guards;        /* address and offset of the segment of guards */
    size_t functions_count; /* different ones among the redirections, and what guards ask */
    const char **functions;
    size_t old_symbols;
    uint64_t runpath; /* offset of the expanded one in the strings, or 0 */
    uint64_t library; /* likewise, of the library's name */
    uint64_t soname;  /* likewise, of the file's name, if it has no soname */
};

static int refuse(const struct writing *writing, const char *why)
{
    *writing->why = why;
    return -ENOTSUP;
}

static int write_at(const struct writing *writing, const void *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        const ssize_t written = pwrite(writing->descriptor, (const char *)bytes + done, size - done,
                                       (off_t)(offset + done));
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written == 0)
            return -EIO;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static uint64_t up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---- what the copy asks libhomefree for ----------------------------------------------------- */

static size_t function_index(const struct writing *writing, const char *name)
{
    size_t i = 0;
    while (i < writing->functions_count && strcmp(writing->functions[i], name) != 0)
        i++;
    return i;
}

static int collect_functions(struct writing *writing)
{
    writing->functions = calloc(writing->plan->count + 1, sizeof *writing->functions);
    if (writing->functions == NULL)
        return -ENOMEM;
    if (writing->plan->release_only)
        writing->functions[writing->functions_count++] = HF_RELEASE_ONLY_QUESTION;
    for (size_t i = 0; i < writing->plan->count; i++) {
        const char *name = writing->plan->redirections[i].function;
        if (function_index(writing, name) == writing->functions_count)
            writing->functions[writing->functions_count++] = name;
    }
    return 0;
}

/* ---- the dynamic section -------------------------------------------------------------------- */

struct dynamic {
    Elf64_Dyn *entries;
    size_t count; /* as far as the segment goes */
    uint64_t offset;
};

static int read_dynamic(const struct writing *writing, struct dynamic *dynamic)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(writing->elf, &cursor, &segment);)
        if (segment.p_type == PT_DYNAMIC) {
            dynamic->offset = segment.p_offset;
            dynamic->count = segment.p_filesz / sizeof(Elf64_Dyn);
        }
    if (dynamic->count == 0 || dynamic->count > ENTRIES_MAX)
        return refuse(writing, "its dynamic section is of an unusual size");
    dynamic->entries = calloc(dynamic->count, sizeof *dynamic->entries);
    if (dynamic->entries == NULL)
        return -ENOMEM;
    return hf_elf_read(writing->elf, dynamic->offset, dynamic->entries,
                       dynamic->count * sizeof *dynamic->entries);
}

static Elf64_Dyn *entry_of(const struct dynamic *dynamic, int64_t tag)
{
    for (size_t i = 0; i < dynamic->count && dynamic->entries[i].d_tag != DT_NULL; i++)
        if (dynamic->entries[i].d_tag == tag)
            return &dynamic->entries[i];
    return NULL;
}

/* An entry that can become another: a spare one at the end, or one that only makes relocating
 * faster. */
static Elf64_Dyn *spare_entry(const struct dynamic *dynamic)
{
    size_t end = 0;
    while (end < dynamic->count && dynamic->entries[end].d_tag != DT_NULL)
        end++;
    if (end + 1 < dynamic->count && dynamic->entries[end + 1].d_tag == DT_NULL)
        return &dynamic->entries[end];
    return entry_of(dynamic, DT_RELACOUNT);
}

static int change_dynamic(const struct writing *writing)
{
    struct dynamic dynamic = {0};
    int error = read_dynamic(writing, &dynamic);
    if (error != 0) {
        free(dynamic.entries);
        return error;
    }
    const struct {
        int64_t tag;
        uint64_t value;
        bool needed;
    } changes[] = {
        {DT_SYMTAB, writing->address + writing->symbols, true},
        {DT_STRTAB, writing->address + writing->strings, true},
        {DT_STRSZ, writing->strings_size, true},
        {DT_RELA, writing->address + writing->relocations, true},
        {DT_RELASZ, writing->relocations_size, true},
        {DT_VERSYM, writing->address + writing->versions, false},
        {DT_RUNPATH, writing->runpath, false},
        {DT_RPATH, writing->runpath, false},
    };
    for (size_t i = 0; error == 0 && i < sizeof changes / sizeof changes[0]; i++) {
        Elf64_Dyn *entry = entry_of(&dynamic, changes[i].tag);
        if (entry == NULL && changes[i].needed)
            error = refuse(writing, "its dynamic section has no symbols or relocations");
        else if (entry != NULL && changes[i].value != 0)
            entry->d_un.d_val = changes[i].value;
    }
    Elf64_Dyn *flags = entry_of(&dynamic, DT_FLAGS);
    if (flags != NULL && writing->plan->drops_thread_data)
        flags->d_un.d_val &= ~(Elf64_Xword)DF_STATIC_TLS;
    Elf64_Dyn *spare = spare_entry(&dynamic);
    if (error == 0 && spare == NULL)
        error = refuse(writing, "its dynamic section has no room for one more library");
    if (error == 0) {
        *spare = (Elf64_Dyn){.d_tag = DT_NEEDED, .d_un.d_val = writing->library};
        /* Others may need the original by its file's name. */
        spare = writing->soname != 0 ? spare_entry(&dynamic) : NULL;
        if (spare != NULL)
            *spare = (Elf64_Dyn){.d_tag = DT_SONAME, .d_un.d_val = writing->soname};
        error = write_at(writing, dynamic.entries, dynamic.count * sizeof *dynamic.entries,
                         dynamic.offset);
    }
    free(dynamic.entries);
    return error;
}

/* ---- the added segment ---------------------------------------------------------------------- */

/* Copies `size` bytes that the file has at an address. */
static int copy_table(const struct writing *writing, int64_t tag, uint64_t to, size_t size)
{
    uint64_t address, available;
    if (size == 0)
        return 0;
    if (!hf_elf_tag(writing->elf, tag, &address))
        return refuse(writing, "its dynamic section has no symbols or relocations");
    const unsigned char *bytes = hf_image_at(writing->image, address, &available);
    if (bytes == NULL || available < size)
        return refuse(writing, "one of its tables lies outside the file");
    memcpy(writing->bytes + to, bytes, size);
    return 0;
}

static uint64_t add_string(struct writing *writing, const char *text)
{
    const uint64_t at = writing->strings_size;
    const size_t size = strlen(text) + 1;
    memcpy(writing->bytes + writing->strings + at, text, size);
    writing->strings_size += size;
    return at;
}

/* The search path, with the original's directory in place of $ORIGIN. */
static int expand_path(const struct writing *writing, char out[PATH_MAX * 2])
{
    out[0] = '\0';
    const char *path = hf_elf_tag_string(writing->elf, DT_RUNPATH);
    if (path == NULL)
        path = hf_elf_tag_string(writing->elf, DT_RPATH);
    if (path == NULL)
        return 0;
    char directory[PATH_MAX];
    const size_t length =
        (size_t)(strrchr(writing->facts->original, '/') - writing->facts->original);
    if (length >= sizeof directory || strnlen(path, PATH_MAX * 2) == PATH_MAX * 2)
        return refuse(writing, "its search path is too long");
    memcpy(directory, writing->facts->original, length);
    directory[length] = '\0';
    if (hf_origin_expand(path, strlen(path), directory, out, PATH_MAX * 2) < 0)
        return refuse(writing, "its search path is too long");
    return 0;
}

/* For the added segment, its note, and guards. */
static size_t added_headers(const struct writing *writing)
{
    return writing->plan->release_only ? 3 : 2;
}

static void lay_out(struct writing *writing, size_t added_strings)
{
    struct hf_elf *elf = writing->elf;
    uint64_t end = 0;
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);)
        if (segment.p_type == PT_LOAD && segment.p_vaddr + segment.p_memsz > end)
            end = segment.p_vaddr + segment.p_memsz;
    end = up(end > elf->size ? end : elf->size, SEGMENT);
    writing->guards = end;
    if (writing->plan->release_only)
        end = up(end + writing->plan->count * HF_GUARD_MAX, SEGMENT);
    writing->address = writing->offset = end;
    const size_t count = writing->functions_count;
    uint64_t at = (elf->header.e_phnum + added_headers(writing)) * sizeof(Elf64_Phdr);
    writing->note = at;
    writing->note_size = sizeof(Elf64_Nhdr) + HF_ADOPTED_NAME_SIZE +
                         sizeof(struct hf_adopted_note) + strlen(writing->facts->original) + 1 +
                         strlen(writing->plan->why) + 1;
    at = up(at + writing->note_size, 16);
    writing->symbols = at;
    at += (writing->old_symbols + count) * sizeof(Elf64_Sym);
    /* Some readers take the symbols to end where the strings begin. */
    writing->strings = at;
    at = up(at + writing->old_strings_size + added_strings, 16);
    writing->versions = at;
    at = up(at + (writing->old_symbols + count) * sizeof(Elf64_Half), 16);
    writing->relocations = at;
    writing->relocations_size = writing->old_relocations_size + count * sizeof(Elf64_Rela);
    at = up(at + writing->relocations_size, 16);
    writing->slots = at;
    writing->size = at + count * sizeof(uint64_t);
}

static void add_function(struct writing *writing, size_t index, const char *name)
{
    const uint64_t symbol = writing->old_symbols + index;
    const Elf64_Sym undefined = {
        .st_name = (Elf64_Word)add_string(writing, name),
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
    };
    const Elf64_Half global = VER_NDX_GLOBAL;
    const Elf64_Rela relocation = {
        .r_offset = writing->address + writing->slots + index * sizeof(uint64_t),
        .r_info = ELF64_R_INFO(symbol, (uint64_t)(writing->elf->header.e_machine == EM_X86_64
                                                      ? R_X86_64_64
                                                      : R_AARCH64_ABS64)),
    };
    memcpy(writing->bytes + writing->symbols + symbol * sizeof undefined, &undefined,
           sizeof undefined);
    memcpy(writing->bytes + writing->versions + symbol * sizeof global, &global, sizeof global);
    memcpy(writing->bytes + writing->relocations + writing->old_relocations_size +
               index * sizeof relocation,
           &relocation, sizeof relocation);
}

static void add_note(const struct writing *writing)
{
    struct hf_adopted_note note = {
        .key = {writing->facts->key[0], writing->facts->key[1]},
        .slots = writing->address,
        .size = writing->size,
        .file_size = writing->offset + writing->size,
        .redirections = (uint32_t)writing->plan->count,
        .release_only = writing->plan->release_only,
    };
    for (size_t i = 0; i < HF_ALLOCATOR_COUNT; i++)
        note.allocators |= writing->plan->allocators[i] ? UINT32_C(1) << i : 0;
    const size_t path = strlen(writing->facts->original) + 1, why = strlen(writing->plan->why) + 1;
    const Elf64_Nhdr header = {sizeof HF_ADOPTED_OWNER, (Elf64_Word)(sizeof note + path + why),
                               HF_ADOPTED_TYPE};
    unsigned char *at = writing->bytes + writing->note;
    memcpy(at, &header, sizeof header);
    memcpy(at += sizeof header, HF_ADOPTED_OWNER, sizeof HF_ADOPTED_OWNER);
    memcpy(at += HF_ADOPTED_NAME_SIZE, &note, sizeof note);
    memcpy(at += sizeof note, writing->facts->original, path);
    memcpy(at + path, writing->plan->why, why);
}

/* The program headers, and those that are added. */
static int add_headers(const struct writing *writing)
{
    Elf64_Phdr *headers = (Elf64_Phdr *)(void *)writing->bytes;
    size_t count = 0;
    Elf64_Phdr segment;
    const Elf64_Phdr note = {
        .p_type = PT_NOTE,
        .p_flags = PF_R,
        .p_offset = writing->offset + writing->note,
        .p_vaddr = writing->address + writing->note,
        .p_paddr = writing->address + writing->note,
        .p_filesz = writing->note_size,
        .p_memsz = writing->note_size,
        .p_align = 4,
    };
    const Elf64_Phdr added = {
        .p_type = PT_LOAD,
        .p_flags = PF_R | PF_W,
        .p_offset = writing->offset,
        .p_vaddr = writing->address,
        .p_paddr = writing->address,
        .p_filesz = writing->size,
        .p_memsz = writing->size,
        .p_align = SEGMENT,
    };
    const size_t last = writing->elf->header.e_phnum;
    size_t loads = 0;
    for (size_t cursor = 0; hf_elf_segment(writing->elf, &cursor, &segment) && count < last;) {
        if (segment.p_type == PT_PHDR) {
            segment.p_offset = writing->offset;
            segment.p_vaddr = segment.p_paddr = writing->address;
            segment.p_filesz = segment.p_memsz = (last + added_headers(writing)) * sizeof segment;
        }
        if (segment.p_type == PT_TLS && writing->plan->drops_thread_data)
            segment.p_type = PT_NULL;
        loads += segment.p_type == PT_LOAD;
        headers[count++] = segment;
    }
    if (count != last || loads == 0)
        return refuse(writing, "its program headers are damaged");
    /* Segments must be in the order of their addresses; others may stand between them. */
    if (writing->plan->release_only)
        headers[count++] = (Elf64_Phdr){
            .p_type = PT_LOAD,
            .p_flags = PF_R | PF_X,
            .p_offset = writing->guards,
            .p_vaddr = writing->guards,
            .p_paddr = writing->guards,
            .p_filesz = writing->plan->count * HF_GUARD_MAX,
            .p_memsz = writing->plan->count * HF_GUARD_MAX,
            .p_align = SEGMENT,
        };
    headers[count++] = added;
    headers[count] = note;
    return 0;
}

/* Leaves out the relocations of the object's thread-local variables. */
static void drop_thread_data(const struct writing *writing)
{
    const struct hf_image *image = writing->image;
    const size_t count = writing->old_relocations_size / sizeof(Elf64_Rela);
    Elf64_Rela *relocations = (Elf64_Rela *)(void *)(writing->bytes + writing->relocations);
    for (size_t i = 0; i < count; i++)
        if (hf_image_thread_slot(image, relocations[i].r_offset) != NULL)
            relocations[i].r_info = ELF64_R_INFO(0, R_X86_64_NONE); /* 0, as R_AARCH64_NONE */
}

/* Makes names of the old allocator local: the dynamic linker then finds them for nobody else. */
static void hide_names(const struct writing *writing)
{
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(writing->bytes + writing->symbols);
    for (size_t i = 1; writing->plan->hidden_count > 0 && i < writing->old_symbols; i++)
        if (symbols[i].st_shndx != SHN_UNDEF &&
            bsearch(&symbols[i].st_value, writing->plan->hidden, writing->plan->hidden_count,
                    sizeof *writing->plan->hidden, hf_array_by_address) != NULL)
            symbols[i].st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(symbols[i].st_info));
}

static const char *file_name(const struct writing *writing)
{
    return strrchr(writing->facts->original, '/') + 1;
}

/* The size of the strings that are added, at most. */
static size_t strings_added(const struct writing *writing, const char *path)
{
    size_t size =
        strlen(path) + 1 + strlen(writing->facts->library) + 1 + strlen(file_name(writing)) + 1;
    for (size_t i = 0; i < writing->functions_count; i++)
        size += strlen(writing->functions[i]) + 1;
    return size;
}

static int fill(struct writing *writing, const char *path)
{
    int error =
        copy_table(writing, DT_SYMTAB, writing->symbols, writing->old_symbols * sizeof(Elf64_Sym));
    if (error == 0)
        error = copy_table(writing, DT_STRTAB, writing->strings, writing->old_strings_size);
    if (error == 0)
        error = copy_table(writing, DT_RELA, writing->relocations, writing->old_relocations_size);
    uint64_t versions;
    if (error == 0 && hf_elf_tag(writing->elf, DT_VERSYM, &versions))
        error = copy_table(writing, DT_VERSYM, writing->versions,
                           writing->old_symbols * sizeof(Elf64_Half));
    if (error == 0)
        error = add_headers(writing);
    if (error != 0)
        return error;
    hide_names(writing);
    if (writing->plan->drops_thread_data)
        drop_thread_data(writing);
    writing->strings_size = writing->old_strings_size;
    writing->library = add_string(writing, writing->facts->library);
    if (path[0] != '\0')
        writing->runpath = add_string(writing, path);
    if (hf_elf_tag_string(writing->elf, DT_SONAME) == NULL)
        writing->soname = add_string(writing, file_name(writing));
    for (size_t i = 0; i < writing->functions_count; i++)
        add_function(writing, i, writing->functions[i]);
    add_note(writing);
    return 0;
}

/* Whether the file's header has the address 0, so that an offset in the file can be one, too. */
static bool begins_at_zero(struct hf_elf *elf)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);)
        if (segment.p_type == PT_LOAD)
            return segment.p_vaddr == segment.p_offset && segment.p_offset < SEGMENT;
    return false;
}

static int make_segment(struct writing *writing)
{
    struct hf_elf *elf = writing->elf;
    char path[PATH_MAX * 2];
    int error = expand_path(writing, path);
    if (error != 0)
        return error;
    uint64_t strings = 0, relocations = 0;
    (void)hf_elf_tag(elf, DT_STRSZ, &strings);
    (void)hf_elf_tag(elf, DT_RELASZ, &relocations);
    writing->old_symbols = hf_elf_symbol_count(elf, HF_ELF_DYNSYM);
    if (writing->old_symbols == 0 || strings == 0 || strings > elf->size ||
        relocations > elf->size || relocations % sizeof(Elf64_Rela) != 0 ||
        elf->header.e_phnum > 512)
        return refuse(writing, "its dynamic symbols or relocations are damaged");
    writing->old_strings_size = strings;
    writing->old_relocations_size = relocations;
    if (!begins_at_zero(elf))
        return refuse(writing, "its addresses do not begin at 0, as after prelinking");
    lay_out(writing, strings_added(writing, path));
    writing->bytes = calloc(1, writing->size);
    if (writing->bytes == NULL)
        return -ENOMEM;
    return fill(writing, path);
}

/* ---- the code ------------------------------------------------------------------------------- */

/* The address of the word through which a function is called. */
static uint64_t slot_of(const struct writing *writing, const char *function)
{
    return writing->address + writing->slots + function_index(writing, function) * sizeof(uint64_t);
}

static int write_code(const struct writing *writing, uint64_t address, const unsigned char *code,
                      size_t size)
{
    uint64_t offset, available;
    return hf_elf_locate(writing->elf, address, &offset, &available) != 0 || available < size
               ? refuse(writing, "one of its functions lies outside the file")
               : write_at(writing, code, size, offset);
}

/* Writes one guard, and the jump to it. */
static int write_guard(const struct writing *writing, size_t index, const unsigned char *before)
{
    const struct hf_redirection *redirection = &writing->plan->redirections[index];
    const uint64_t at = writing->guards + index * HF_GUARD_MAX;
    unsigned char guard[HF_GUARD_MAX] = {0}, jump[HF_GUARD_DISPLACED_MAX];
    const size_t size = hf_guard_write(
        before, redirection->displaced, redirection->address, redirection->guard, at,
        slot_of(writing, HF_RELEASE_ONLY_QUESTION), slot_of(writing, redirection->function), guard);
    if (size == 0 ||
        !hf_guard_enter(before, redirection->displaced, redirection->address, at, jump))
        return refuse(writing, "one of its allocator's functions is too far from the guards");
    const int error = write_at(writing, guard, sizeof guard, at);
    return error != 0 ? error
                      : write_code(writing, redirection->address, jump, redirection->displaced);
}

/* Writes the guards of a plan whose entries all have one. */
static int write_guards(const struct writing *writing)
{
    const struct hf_plan *plan = writing->plan;
    int error = 0;
    for (size_t i = 0; error == 0 && i < plan->count; i++) {
        uint64_t available;
        const unsigned char *before =
            hf_image_at(writing->image, plan->redirections[i].address, &available);
        if (before == NULL || plan->redirections[i].displaced > available)
            return refuse(writing, "one of its functions lies outside the file");
        error = write_guard(writing, i, before);
    }
    return error;
}

/* The old code of a replaced function, behind what it begins with now: nothing runs it. */
struct spare {
    uint64_t address, capacity;
};

/* Lets a function that has no room for the jump go to one in the old code of another. */
static int write_near_jump(const struct writing *writing, const struct hf_redirection *redirection,
                           const unsigned char *before, uint64_t capacity, struct spare *spares,
                           size_t count)
{
    const struct hf_code *code = writing->image->code;
    static const unsigned char nothing[HF_CODE_JUMP_MAX];
    for (size_t i = 0; code->jump_to != NULL && i < count; i++) {
        unsigned char far[HF_CODE_JUMP_MAX], near[HF_CODE_JUMP_MAX];
        struct spare *spare = &spares[i];
        const size_t far_size = code->jump_through(nothing, spare->capacity, spare->address,
                                                   slot_of(writing, redirection->function), far);
        const size_t near_size =
            code->jump_to(before, capacity, redirection->address, spare->address, near);
        if (far_size == 0 || near_size == 0)
            continue;
        const int error = write_code(writing, spare->address, far, far_size);
        spare->address += far_size;
        spare->capacity -= far_size;
        return error != 0 ? error : write_code(writing, redirection->address, near, near_size);
    }
    return refuse(writing, "one of its allocator's functions is too short for a jump");
}

static int write_jumps_to(const struct writing *writing, struct spare *spares)
{
    const struct hf_plan *plan = writing->plan;
    size_t spares_count = 0;
    int error = 0;
    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; error == 0 && i < plan->count; i++) {
            const struct hf_redirection *redirection = &plan->redirections[i];
            const uint64_t address = redirection->address;
            unsigned char code[HF_CODE_JUMP_MAX];
            uint64_t available;
            const unsigned char *before = hf_image_at(writing->image, address, &available);
            if (before == NULL)
                return refuse(writing, "one of its functions lies outside the file");
            const uint64_t capacity =
                redirection->capacity < available ? redirection->capacity : available;
            const size_t size = writing->image->code->jump_through(
                before, capacity, address, slot_of(writing, redirection->function), code);
            if (size == 0 && pass == 1)
                error =
                    write_near_jump(writing, redirection, before, capacity, spares, spares_count);
            if (size == 0 || pass == 1)
                continue;
            error = write_code(writing, address, code, size);
            spares[spares_count++] = (struct spare){address + size, capacity - size};
        }
    return error;
}

static int write_jumps(const struct writing *writing)
{
    if (writing->plan->release_only)
        return write_guards(writing);
    struct spare *spares = calloc(writing->plan->count + 1, sizeof *spares);
    if (spares == NULL)
        return -ENOMEM;
    const int error = write_jumps_to(writing, spares);
    free(spares);
    return error;
}

static int write_header(const struct writing *writing)
{
    Elf64_Ehdr header = writing->elf->header;
    header.e_phoff = writing->offset;
    header.e_phnum = (Elf64_Half)(header.e_phnum + added_headers(writing));
    return write_at(writing, &header, sizeof header, 0);
}

int hf_adopted_write(int descriptor, const struct hf_image *image, const struct hf_plan *plan,
                     const struct hf_adopted_facts *facts, const char **why)
{
    struct writing writing = {
        .descriptor = descriptor,
        .image = image,
        .elf = image->elf,
        .plan = plan,
        .facts = facts,
        .why = why,
    };
    int error = collect_functions(&writing);
    if (error == 0)
        error = make_segment(&writing);
    if (error == 0 && !hf_copy_fits(writing.offset + writing.size))
        error = -EFBIG;
    if (error == 0)
        error = write_jumps(&writing);
    if (error == 0)
        error = change_dynamic(&writing);
    if (error == 0)
        error = write_at(&writing, writing.bytes, writing.size, writing.offset);
    if (error == 0)
        error = write_header(&writing);
    free(writing.bytes);
    free(writing.functions);
    return error;
}
