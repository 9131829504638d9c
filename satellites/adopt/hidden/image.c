/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See image.h. A segment's bytes are read whole: what refers to an allocator may stand anywhere.
 */
#include "satellites/adopt/hidden/image.h"

#include "satellites/adopt/hidden/arrays.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* glibc's header knows them since 2.36. */
#ifndef DT_RELR
#    define DT_RELRSZ 35
#    define DT_RELR   36
#endif

/* Maps with a bit for some bytes of the whole are made: as many as this has. Larger objects cannot
 * be linked for their code to reach its data. */
#define SPAN_MAX (UINT64_C(8) << 30)

/* ---- segments ------------------------------------------------------------------------------- */

static int by_address(const void *left, const void *right)
{
    const struct hf_stretch *one = left, *other = right;
    return one->address < other->address ? -1 : one->address > other->address;
}

/* Where code lies in a segment: linkers may put it into one with constants (-z noseparate-code, and
 * GNU's for aarch64). All of it, if no section says so. */
static void find_code(const struct hf_image *image, const Elf64_Phdr *segment, uint64_t *first,
                      uint64_t *end)
{
    Elf64_Shdr section;
    const char *name;
    *first = UINT64_MAX;
    *end = 0;
    for (size_t cursor = 0; hf_elf_section(image->elf, &cursor, &section, &name);) {
        const uint64_t from = section.sh_addr - segment->p_vaddr;
        if ((section.sh_flags & SHF_EXECINSTR) == 0 || from >= segment->p_filesz ||
            section.sh_size > segment->p_filesz - from)
            continue;
        *first = from < *first ? from : *first;
        *end = from + section.sh_size > *end ? from + section.sh_size : *end;
    }
    if (*first >= *end) {
        *first = 0;
        *end = segment->p_memsz;
    }
}

/* Reads a part of a segment. */
static int read_part(struct hf_image *image, const Elf64_Phdr *header, uint64_t first, uint64_t end,
                     bool code)
{
    struct hf_stretch *stretch = &image->stretches[image->stretches_count];
    if (first >= end)
        return 0;
    const uint64_t in_file = header->p_filesz < first ? 0 : header->p_filesz - first;
    const uint64_t size = in_file < end - first ? in_file : end - first;
    /* One byte more, so that an empty one has an address. */
    unsigned char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return -ENOMEM;
    *stretch = (struct hf_stretch){
        .address = header->p_vaddr + first,
        .size = end - first,
        .offset = header->p_offset + first,
        .bytes_size = size,
        .bytes = bytes,
        .code = code,
        .writable = (header->p_flags & PF_W) != 0,
    };
    image->stretches_count++;
    return hf_elf_read(image->elf, stretch->offset, bytes, size);
}

static int read_stretch(struct hf_image *image, const Elf64_Phdr *header)
{
    uint64_t first = 0, end = 0;
    if (header->p_memsz == 0)
        return 0;
    if (header->p_filesz > header->p_memsz || header->p_offset > image->elf->size ||
        header->p_filesz > image->elf->size - header->p_offset ||
        header->p_vaddr > UINT64_MAX - header->p_memsz)
        return hf_elf_fail(image->elf, -ENOEXEC, "a segment lies outside the file");
    if ((header->p_flags & PF_X) != 0)
        find_code(image, header, &first, &end);
    int error = read_part(image, header, 0, first, false);
    if (error == 0)
        error = read_part(image, header, first, end, true);
    return error == 0 ? read_part(image, header, end, header->p_memsz, false) : error;
}

static int read_stretches(struct hf_image *image)
{
    Elf64_Phdr header;
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t cursor = 0; hf_elf_segment(image->elf, &cursor, &header);)
        if (header.p_type == PT_LOAD) {
            count++;
            bytes += header.p_filesz;
            /* Segments of a real object share pages at their borders, no more. */
            if (bytes > image->elf->size + count * UINT64_C(65536))
                return hf_elf_fail(image->elf, -ENOEXEC, "its segments overlap in the file");
        }
    image->stretches = calloc(3 * count + 1, sizeof *image->stretches);
    if (image->stretches == NULL)
        return -ENOMEM;
    int error = 0;
    for (size_t cursor = 0; error == 0 && hf_elf_segment(image->elf, &cursor, &header);)
        if (header.p_type == PT_LOAD)
            error = read_stretch(image, &header);
    qsort(image->stretches, image->stretches_count, sizeof *image->stretches, by_address);
    for (size_t i = 1; error == 0 && i < image->stretches_count; i++)
        if (image->stretches[i - 1].address + image->stretches[i - 1].size >
            image->stretches[i].address)
            error = hf_elf_fail(image->elf, -ENOEXEC, "its segments overlap in memory");
    const struct hf_stretch *last = &image->stretches[image->stretches_count];
    if (error == 0 && image->stretches_count > 0 &&
        last[-1].address + last[-1].size - image->stretches[0].address > SPAN_MAX)
        error = hf_elf_fail(image->elf, -ENOTSUP, "its segments are too far apart");
    return error;
}

const struct hf_stretch *hf_image_stretch(const struct hf_image *image, uint64_t address)
{
    for (size_t i = 0; i < image->stretches_count; i++)
        if (address - image->stretches[i].address < image->stretches[i].size)
            return &image->stretches[i];
    return NULL;
}

const unsigned char *hf_image_at(const struct hf_image *image, uint64_t address, uint64_t *size)
{
    const struct hf_stretch *stretch = hf_image_stretch(image, address);
    if (stretch == NULL || address - stretch->address >= stretch->bytes_size)
        return NULL;
    *size = stretch->bytes_size - (address - stretch->address);
    return stretch->bytes + (address - stretch->address);
}

/* ---- relocations ---------------------------------------------------------------------------- */

/* What a relocation stores. */
enum stores { STORES_NOTHING, STORES_ADDEND, STORES_SYMBOL, STORES_THREAD, STORES_UNKNOWN };

static enum stores x86_stores(uint32_t type)
{
    switch (type) {
    case R_X86_64_RELATIVE:
    case R_X86_64_IRELATIVE:
        return STORES_ADDEND;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        return STORES_SYMBOL;
    case R_X86_64_DTPMOD64:
    case R_X86_64_TPOFF64:
    case R_X86_64_TLSDESC:
        return STORES_THREAD;
    case R_X86_64_NONE:
    case R_X86_64_COPY:
    case R_X86_64_DTPOFF64:
    case R_X86_64_SIZE64:
        return STORES_NOTHING;
    default:
        return STORES_UNKNOWN;
    }
}

static enum stores arm_stores(uint32_t type)
{
    switch (type) {
    case R_AARCH64_RELATIVE:
    case R_AARCH64_IRELATIVE:
        return STORES_ADDEND;
    case R_AARCH64_ABS64:
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT:
        return STORES_SYMBOL;
    case R_AARCH64_TLS_DTPMOD:
    case R_AARCH64_TLS_TPREL:
    case R_AARCH64_TLSDESC:
        return STORES_THREAD;
    case R_AARCH64_NONE:
    case R_AARCH64_COPY:
    case R_AARCH64_TLS_DTPREL:
        return STORES_NOTHING;
    default:
        return STORES_UNKNOWN;
    }
}

/* libc's and the C++ runtime's functions that never return, as far as compilers call them. */
static bool is_endless(const char *name)
{
    static const char *const names[] = {
        "abort",
        "exit",
        "_exit",
        "__assert_fail",
        "__stack_chk_fail",
        "__chk_fail",
        "__cxa_throw",
        "__cxa_rethrow",
        "__cxa_bad_cast",
        "__cxa_bad_typeid",
        "__cxa_throw_bad_array_new_length",
        "__cxa_pure_virtual",
        "_Unwind_Resume",
        "_ZSt9terminatev",
        "longjmp",
        "siglongjmp",
        "pthread_exit",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "_ZSt", 4) == 0 && strstr(name, "__throw_") != NULL;
}

struct relocations {
    struct hf_image *image;
    uint64_t *values; /* by index of the dynamic symbol; 0: not defined here, or TLS */
    bool *foreign;    /* likewise: another object defines it */
    bool *endless;    /* likewise: and it is a function that never returns */
    size_t values_count, capacity, thread_capacity, endless_capacity;
    bool lazy; /* the table being read is DT_JMPREL */
};

static bool keep_value(const struct hf_elf_symbol *symbol, void *context)
{
    struct relocations *relocations = context;
    if (symbol->index >= relocations->values_count)
        return true;
    relocations->foreign[symbol->index] = !symbol->defined;
    relocations->endless[symbol->index] = !symbol->defined && is_endless(symbol->name);
    if (symbol->defined && symbol->type != STT_TLS)
        relocations->values[symbol->index] = symbol->value;
    relocations->image->exports_thread_local |= symbol->defined && symbol->type == STT_TLS;
    return true;
}

static int add(struct relocations *relocations, uint64_t where, uint64_t to)
{
    struct hf_image *image = relocations->image;
    if (hf_array_more(&image->pointers, image->pointers_count, &relocations->capacity,
                      sizeof *image->pointers) != 0)
        return -ENOMEM;
    image->pointers[image->pointers_count++] = (struct hf_pointer){where, to};
    return 0;
}

static int add_endless(struct relocations *relocations, uint64_t slot)
{
    struct hf_image *image = relocations->image;
    if (hf_array_more(&image->endless, image->endless_count, &relocations->endless_capacity,
                      sizeof *image->endless) != 0)
        return -ENOMEM;
    image->endless[image->endless_count++] = slot;
    return 0;
}

static int add_thread_slot(struct relocations *relocations, uint64_t symbol,
                           struct hf_thread_slot slot)
{
    struct hf_image *image = relocations->image;
    if ((symbol < relocations->values_count && relocations->foreign[symbol]) ||
        hf_image_stretch(image, slot.address) == NULL)
        return 0;
    if (hf_array_more(&image->thread_slots, image->thread_slots_count,
                      &relocations->thread_capacity, sizeof *image->thread_slots) != 0)
        return -ENOMEM;
    image->thread_slots[image->thread_slots_count++] = slot;
    return 0;
}

/* Whether a slot is that of the local-dynamic model: all thread-local variables of the object share
 * it, so that it says nothing about any of them (ELF Handling For Thread-Local Storage, 4.2). */
static bool is_local_dynamic(const struct hf_image *image, uint64_t where, uint64_t symbol,
                             uint32_t type)
{
    const bool x86 = image->elf->header.e_machine == EM_X86_64;
    if (symbol != 0 || type != (x86 ? R_X86_64_DTPMOD64 : R_AARCH64_TLS_DTPMOD))
        return false;
    uint64_t available, offset;
    const unsigned char *bytes = hf_image_at(image, where + sizeof offset, &available);
    if (bytes == NULL || available < sizeof offset)
        return false;
    memcpy(&offset, bytes, sizeof offset);
    return offset == 0;
}

static int add_relocation(struct relocations *relocations, const Elf64_Rela *relocation)
{
    struct hf_elf *elf = relocations->image->elf;
    const uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
    const uint64_t symbol = ELF64_R_SYM(relocation->r_info);
    const uint64_t addend = (uint64_t)relocation->r_addend;
    switch (elf->header.e_machine == EM_X86_64 ? x86_stores(type) : arm_stores(type)) {
    case STORES_NOTHING:
        return 0;
    case STORES_ADDEND:
        return add(relocations, relocation->r_offset, addend);
    case STORES_SYMBOL:
        if (symbol >= relocations->values_count)
            return 0;
        if (relocations->endless[symbol])
            return add_endless(relocations, relocation->r_offset);
        if (relocations->values[symbol] == 0)
            return 0; /* another object's */
        return add(relocations, relocation->r_offset, relocations->values[symbol] + addend);
    case STORES_THREAD:
        return add_thread_slot(
            relocations, symbol,
            (struct hf_thread_slot){
                relocation->r_offset,
                is_local_dynamic(relocations->image, relocation->r_offset, symbol, type),
                relocations->lazy,
            });
    case STORES_UNKNOWN:
        break;
    }
    return hf_elf_fail(elf, -ENOTSUP, "it has a relocation of an unknown type");
}

/* The bytes of a table of relocations, none if the object has no such table. */
static int find_table(const struct hf_image *image, int64_t table_tag, int64_t size_tag,
                      const unsigned char **bytes, uint64_t *size)
{
    uint64_t table, available;
    *bytes = NULL;
    if (!hf_elf_tag(image->elf, table_tag, &table) || !hf_elf_tag(image->elf, size_tag, size) ||
        *size == 0) {
        *size = 0;
        return 0;
    }
    *bytes = hf_image_at(image, table, &available);
    return *bytes != NULL && available >= *size
               ? 0
               : hf_elf_fail(image->elf, -ENOEXEC, "its relocations lie outside the file");
}

static int read_rela(struct relocations *relocations, int64_t table_tag, int64_t size_tag)
{
    const unsigned char *bytes;
    uint64_t size;
    int error = find_table(relocations->image, table_tag, size_tag, &bytes, &size);
    for (uint64_t i = 0; error == 0 && i < size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela relocation;
        memcpy(&relocation, bytes + i * sizeof relocation, sizeof relocation);
        error = add_relocation(relocations, &relocation);
    }
    return error;
}

static int add_word(struct relocations *relocations, uint64_t where)
{
    uint64_t available, to;
    const unsigned char *bytes = hf_image_at(relocations->image, where, &available);
    if (bytes == NULL || available < sizeof to)
        return hf_elf_fail(relocations->image->elf, -ENOEXEC, "a relocation lies outside the file");
    memcpy(&to, bytes, sizeof to);
    return add(relocations, where, to);
}

/* Relative relocations as bitmaps (DT_RELR): an even word is an address, and an odd one has a bit
 * for each of the 63 words that follow. */
static int read_relr(struct relocations *relocations)
{
    const unsigned char *bytes;
    uint64_t size, where = 0;
    int error = find_table(relocations->image, DT_RELR, DT_RELRSZ, &bytes, &size);
    for (uint64_t i = 0; error == 0 && i < size / sizeof(uint64_t); i++) {
        uint64_t word;
        memcpy(&word, bytes + i * sizeof word, sizeof word);
        if ((word & 1) == 0) {
            error = add_word(relocations, word);
            where = word + sizeof word;
            continue;
        }
        for (unsigned bit = 1; error == 0 && bit < 64; bit++)
            if ((word >> bit & 1) != 0)
                error = add_word(relocations, where + (bit - 1) * sizeof word);
        where += 63 * sizeof word;
    }
    return error;
}

static int by_number(const void *left, const void *right)
{
    const uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

static int by_place(const void *left, const void *right)
{
    const struct hf_pointer *one = left, *other = right;
    return one->where < other->where ? -1 : one->where > other->where;
}

static int by_slot(const void *left, const void *right)
{
    const struct hf_thread_slot *one = left, *other = right;
    return one->address < other->address ? -1 : one->address > other->address;
}

static int read_pointers(struct hf_image *image)
{
    struct relocations relocations = {.image = image};
    relocations.values_count = hf_elf_symbol_count(image->elf, HF_ELF_DYNSYM);
    relocations.values = calloc(relocations.values_count + 1, sizeof *relocations.values);
    relocations.foreign = calloc(relocations.values_count + 1, sizeof *relocations.foreign);
    relocations.endless = calloc(relocations.values_count + 1, sizeof *relocations.endless);
    if (relocations.values == NULL || relocations.foreign == NULL || relocations.endless == NULL) {
        free(relocations.values);
        free(relocations.foreign);
        free(relocations.endless);
        return -ENOMEM;
    }
    int error = hf_elf_symbols(image->elf, HF_ELF_DYNSYM, keep_value, &relocations);
    if (error == 0 || error == -ENOENT)
        error = read_rela(&relocations, DT_RELA, DT_RELASZ);
    relocations.lazy = true;
    if (error == 0)
        error = read_rela(&relocations, DT_JMPREL, DT_PLTRELSZ);
    if (error == 0)
        error = read_relr(&relocations);
    free(relocations.values);
    free(relocations.foreign);
    free(relocations.endless);
    if (image->endless_count > 1)
        qsort(image->endless, image->endless_count, sizeof *image->endless, by_number);
    if (image->thread_slots_count > 1)
        qsort(image->thread_slots, image->thread_slots_count, sizeof *image->thread_slots, by_slot);
    if (image->pointers_count > 1)
        qsort(image->pointers, image->pointers_count, sizeof *image->pointers, by_place);
    return error;
}

size_t hf_image_pointer(const struct hf_image *image, uint64_t address)
{
    size_t first = 0, end = image->pointers_count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (image->pointers[middle].where < address)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

bool hf_image_never_returns(const struct hf_image *image, uint64_t slot)
{
    return slot != 0 && image->endless_count > 0 &&
           bsearch(&slot, image->endless, image->endless_count, sizeof slot, by_number) != NULL;
}

uint64_t hf_image_slot_value(const struct hf_image *image, uint64_t address)
{
    const size_t pointer = hf_image_pointer(image, address);
    return pointer < image->pointers_count && image->pointers[pointer].where == address
               ? image->pointers[pointer].to
               : 0;
}

const struct hf_thread_slot *hf_image_thread_slot(const struct hf_image *image, uint64_t address)
{
    const struct hf_thread_slot wanted = {.address = address};
    return image->thread_slots_count == 0
               ? NULL
               : bsearch(&wanted, image->thread_slots, image->thread_slots_count, sizeof wanted,
                         by_slot);
}

bool hf_image_is_thread_slot(const struct hf_image *image, uint64_t address)
{
    const struct hf_thread_slot *slot = hf_image_thread_slot(image, address);
    return slot != NULL && !slot->all;
}

/* ---- linkage tables ------------------------------------------------------------------------- */

static void find_linkages(struct hf_image *image)
{
    Elf64_Shdr header;
    const char *name;
    for (size_t cursor = 0; hf_elf_section(image->elf, &cursor, &header, &name);) {
        const bool slots = strncmp(name, ".got", 4) == 0;
        if ((slots || strncmp(name, ".plt", 4) == 0) && image->linkages_count < HF_LINKAGES_MAX)
            image->linkages[image->linkages_count++] =
                (struct hf_linkage){header.sh_addr, header.sh_size, slots};
    }
}

static bool is_in(const struct hf_image *image, uint64_t address, bool slots)
{
    for (size_t i = 0; i < image->linkages_count; i++)
        if (image->linkages[i].slots == slots &&
            address - image->linkages[i].address < image->linkages[i].size)
            return true;
    return false;
}

bool hf_image_is_linkage(const struct hf_image *image, uint64_t address)
{
    return is_in(image, address, false);
}

bool hf_image_is_slot(const struct hf_image *image, uint64_t address)
{
    return is_in(image, address, true);
}

/* ---- the whole ------------------------------------------------------------------------------ */

const struct hf_code *hf_code_of(uint16_t machine)
{
    return machine == EM_X86_64 ? &hf_code_x86 : machine == EM_AARCH64 ? &hf_code_aarch64 : NULL;
}

int hf_image_open(struct hf_image *image, struct hf_elf *elf)
{
    *image = (struct hf_image){.elf = elf, .code = hf_code_of(elf->header.e_machine)};
    int error = hf_elf_dynamic(elf);
    if (error == 0)
        error = read_stretches(image);
    if (error == 0)
        error = read_pointers(image);
    if (error == 0)
        find_linkages(image);
    return error;
}

void hf_image_close(struct hf_image *image)
{
    for (size_t i = 0; i < image->stretches_count; i++)
        free(image->stretches[i].bytes);
    free(image->stretches);
    free(image->pointers);
    free(image->thread_slots);
    free(image->endless);
    *image = (struct hf_image){0};
}
