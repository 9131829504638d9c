/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the dynamic sections of loaded objects, and finds objects by address. Owns nothing. See
 * dynlink.h for what may be called when.
 *
 * The dynamic linker has accepted these tables, but reads only what it needs: other entries, notes
 * and a second hash table may say anything. So each address is compared with the object's segments
 * (hf_object_room()) before it is followed.
 */
#include "alloc/base/dynlink.h"

#include "alloc/base/maps.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* glibc 2.35 and later; weak, so that older ones load us. */
struct hf_find_result {
    unsigned long long flags;
    void *map_start;
    void *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
extern int hf_dl_find_object(void *address,
                             struct hf_find_result *result) __asm__("_dl_find_object")
    __attribute__((weak, visibility("default")));

/* ---- segments ---- */

static const ElfW(Ehdr) *header_at(const void *file)
{
    return file != NULL && memcmp(file, ELFMAG, SELFMAG) == 0 ? file : NULL;
}

/* The same before glibc 2.35. The load bias is not where the object's memory starts if the linker
 * gave it other addresses than those from 0 on; then nothing may be mapped there. */
static const ElfW(Ehdr) *header_by_dladdr(const struct hf_object *object)
{
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(object->map->l_ld, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 &&
                   map == object->map
               ? header_at(info.dli_fbase)
               : NULL;
}

const ElfW(Ehdr) *hf_object_header(const struct hf_object *object)
{
    if (hf_dl_find_object == NULL)
        return header_by_dladdr(object);
    /* If the segments do not adjoin, glibc knows them one by one. The symbol table is in the first,
     * unless a tool has moved it. */
    const void *const inside[] = {object->map->l_ld, object->symbols, (const void *)object->base};
    struct hf_find_result found;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if (hf_dl_find_object((void *)(uintptr_t)inside[i], &found) == 0 &&
            found.link_map == object->map && header_at(found.map_start) != NULL)
            return found.map_start;
    return NULL; /* also while the object is being loaded */
}

/* Whether the program headers can be read where the ELF header says that they are. The pages of the
 * ELF header and of the symbol table can; nothing is known of others, because an object may have
 * holes, and no other object need be there. */
static bool are_readable(const struct hf_object *object, const ElfW(Ehdr) *file)
{
    enum { PAGE = 4096 }; /* or larger */
    const uintptr_t first = (uintptr_t)file + file->e_phoff;
    const uintptr_t last = first + file->e_phnum * sizeof(ElfW(Phdr)) - 1;
    const uintptr_t page = first / PAGE;
    const ElfW(Phdr) *header = (const void *)first;
    ElfW(Phdr) copy;
    if (page == last / PAGE &&
        (page == (uintptr_t)file / PAGE || page == (uintptr_t)object->symbols / PAGE))
        return true;
    for (size_t i = 0; i < file->e_phnum; i++)
        if (!hf_maps_read(header + i, &copy, sizeof copy))
            return false;
    return true;
}

/* Finds the program headers: through the ELF header, or the auxiliary vector for the program. What
 * is found there is believed if it tells of the dynamic section that the dynamic linker uses. */
static void find_headers(struct hf_object *object)
{
    if (object->headers != NULL)
        return;
    const ElfW(Phdr) *header = NULL;
    size_t count = 0;
    if (object->map->l_prev == NULL && object->map->l_name[0] == '\0') {
        count = getauxval(AT_PHNUM);
        header = (const void *)getauxval(AT_PHDR);
    } else {
        const ElfW(Ehdr) *file = hf_object_header(object);
        if (file == NULL || file->e_phentsize != sizeof *header ||
            file->e_phoff % _Alignof(ElfW(Phdr)) != 0 || !are_readable(object, file))
            return;
        count = file->e_phnum;
        header = (const void *)((const char *)file + file->e_phoff);
    }
    for (size_t i = 0; header != NULL && i < count; i++)
        if (header[i].p_type == PT_DYNAMIC &&
            object->base + header[i].p_vaddr == (uintptr_t)object->map->l_ld) {
            object->headers = header;
            object->headers_count = count;
        }
}

/* The segment that holds an address: empty if none does. */
static struct hf_span segment_of(const struct hf_object *object, uintptr_t address)
{
    struct hf_find_result found;
    for (const ElfW(Phdr) *h = object->headers, *end = h + object->headers_count; h < end; h++)
        if (h->p_type == PT_LOAD && address - object->base - h->p_vaddr < h->p_memsz &&
            h->p_flags != 0)
            return (struct hf_span){object->base + h->p_vaddr,
                                    object->base + h->p_vaddr + h->p_memsz};
    if (object->headers != NULL)
        return (struct hf_span){0, 0};
    if (hf_dl_find_object == NULL || hf_dl_find_object((void *)address, &found) != 0)
        return (struct hf_span){0, UINTPTR_MAX};
    return found.link_map == object->map
               ? (struct hf_span){(uintptr_t)found.map_start, (uintptr_t)found.map_end}
               : (struct hf_span){0, 0};
}

size_t hf_object_capacity(const struct hf_object *object, const void *address)
{
    const struct hf_span segment = segment_of(object, (uintptr_t)address);
    return segment.end != 0 ? segment.end - (uintptr_t)address : 0;
}

/* ---- the dynamic section ---- */

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The same as hf_object_room(), for tables: nearly all of an object's are in one segment. */
static inline uint32_t capacity_of(const struct hf_object *object, const struct hf_span *usual,
                                   const void *table)
{
    const uintptr_t address = (uintptr_t)table;
    if (address >= usual->start && address < usual->end)
        return (uint32_t)smaller(usual->end - address, UINT32_MAX);
    return table != NULL ? (uint32_t)smaller(hf_object_capacity(object, table), UINT32_MAX) : 0;
}

/* A name that starts before the end of the table may be longer than the table: it ends in the
 * segment, or is longer than any name that it could be compared with. */
static void keep_strings(struct hf_object *object, size_t capacity)
{
    enum { NAME_MOST = 4096 };
    if (capacity > NAME_MOST && capacity - NAME_MOST > object->strings_size)
        return;
    object->strings_size = smaller(object->strings_size, capacity);
    while (object->strings_size != 0 && object->strings[object->strings_size - 1] != '\0')
        object->strings_size--;
    if (object->strings_size == 0)
        object->strings = NULL;
}

/* Forgets what does not lie in the object's segments. */
static void keep_tables(struct hf_object *object)
{
    const struct hf_span usual = segment_of(object, (uintptr_t)object->symbols);
    object->symbols_capacity =
        capacity_of(object, &usual, object->symbols) / sizeof *object->symbols;
    if (object->symbols_capacity == 0)
        object->symbols = NULL;
    keep_strings(object, capacity_of(object, &usual, object->strings));
    object->versions_capacity =
        capacity_of(object, &usual, object->versions) / sizeof *object->versions;
    object->needs_capacity = capacity_of(object, &usual, object->needs);
    object->gnu_hash_capacity =
        capacity_of(object, &usual, object->gnu_hash) / sizeof *object->gnu_hash;
    if (object->gnu_hash_capacity < 4)
        object->gnu_hash = NULL;
    object->sysv_hash_capacity =
        capacity_of(object, &usual, object->sysv_hash) / sizeof *object->sysv_hash;
    if (object->sysv_hash_capacity < 2)
        object->sysv_hash = NULL;
    object->rela_size = smaller(object->rela_size, capacity_of(object, &usual, object->rela));
    object->jump_relocations_size = smaller(object->jump_relocations_size,
                                            capacity_of(object, &usual, object->jump_relocations));
}

bool hf_dynlink_open(const struct link_map *map, struct hf_object *out)
{
    *out = (struct hf_object){.map = map, .base = map->l_addr};
    size_t soname = SIZE_MAX;
    for (const ElfW(Dyn) *d = map->l_ld; d != NULL && d->d_tag != DT_NULL; d++) {
        uintptr_t value = d->d_un.d_ptr;
        /* The loader relocates d_ptr in place, except in the read-only vdso. */
        uintptr_t address = value < out->base ? value + out->base : value;
        switch (d->d_tag) {
        case DT_SYMTAB:
            out->symbols = (const void *)address;
            break;
        case DT_STRTAB:
            out->strings = (const void *)address;
            break;
        case DT_STRSZ:
            out->strings_size = value;
            break;
        case DT_VERSYM:
            out->versions = (const void *)address;
            break;
        case DT_VERNEED:
            out->needs = (const void *)address;
            break;
        case DT_VERNEEDNUM:
            out->needs_count = value;
            break;
        case DT_GNU_HASH:
            out->gnu_hash = (const void *)address;
            break;
        case DT_HASH:
            out->sysv_hash = (const void *)address;
            break;
        case DT_JMPREL:
            out->jump_relocations = (const void *)address;
            break;
        case DT_PLTRELSZ:
            out->jump_relocations_size = value;
            break;
        case DT_PLTREL:
            out->jump_is_rela = value == DT_RELA;
            break;
        case DT_RELA:
            out->rela = (const void *)address;
            break;
        case DT_RELASZ:
            out->rela_size = value;
            break;
        case DT_RELACOUNT:
            out->rela_relative_count = value;
            break;
        case DT_SONAME:
            soname = value;
            break;
        default:
            break;
        }
    }
    if (hf_dl_find_object != NULL)
        find_headers(out);
    keep_tables(out);
    if (out->strings != NULL && soname < out->strings_size)
        out->soname = out->strings + soname;
    return out->symbols != NULL && out->strings != NULL;
}

const char *hf_dynlink_name(const struct link_map *map)
{
    if (map->l_name != NULL && map->l_name[0] != '\0')
        return map->l_name;
    const char *program = (const char *)getauxval(AT_EXECFN);
    return map->l_prev == NULL && program != NULL ? program : "(unnamed)";
}

const struct link_map *hf_dynlink_find(const void *address)
{
    if (hf_dl_find_object != NULL) {
        struct hf_find_result result;
        return hf_dl_find_object((void *)(uintptr_t)address, &result) == 0 ? result.link_map : NULL;
    }
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 ? map : NULL;
}

const struct link_map *hf_dynlink_find_fast(const void *address)
{
    struct hf_find_result result;
    if (hf_dl_find_object == NULL || hf_dl_find_object((void *)(uintptr_t)address, &result) != 0)
        return NULL;
    return result.link_map;
}

const void *hf_dynlink_unwind_table(const void *address, struct hf_span *object)
{
    struct hf_find_result result;
    if (hf_dl_find_object == NULL || hf_dl_find_object((void *)(uintptr_t)address, &result) != 0)
        return NULL;
    *object = (struct hf_span){(uintptr_t)result.map_start, (uintptr_t)result.map_end};
    return result.eh_frame;
}

static uint32_t hash_gnu(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static uint32_t hash_sysv(const char *name)
{
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        uint32_t high = hash & 0xf0000000;
        hash ^= high >> 24;
        hash &= ~high;
    }
    return hash;
}

static bool symbol_is(const struct hf_object *object, uint32_t index, const char *name,
                      bool defined)
{
    if (index >= object->symbols_capacity)
        return false;
    const ElfW(Sym) *symbol = &object->symbols[index];
    return (symbol->st_shndx != SHN_UNDEF) == defined && symbol->st_name < object->strings_size &&
           strcmp(object->strings + symbol->st_name, name) == 0;
}

/* The parts of a GNU hash table. */
struct gnu_hash {
    const uint32_t *buckets;
    uint32_t buckets_count, first; /* the first symbol in it */
    const uint32_t *chain;         /* of the symbols from the first on */
    size_t chain_capacity;
};

static bool open_gnu(const struct hf_object *object, struct gnu_hash *out)
{
    const uint32_t *table = object->gnu_hash;
    if (table == NULL)
        return false;
    const size_t buckets = table[0], bloom_words = table[2];
    const size_t before = 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof *table) + buckets;
    if (buckets == 0 || bloom_words == 0 || before > object->gnu_hash_capacity)
        return false;
    out->buckets_count = table[0];
    out->first = table[1];
    out->chain = table + before;
    out->chain_capacity = object->gnu_hash_capacity - before;
    out->buckets = out->chain - buckets;
    return true;
}

/* A symbol's word in the chain; that of one that is not there says that the chain ends. */
static uint32_t chain_at(const struct gnu_hash *hash, uint32_t symbol)
{
    return symbol - hash->first < hash->chain_capacity ? hash->chain[symbol - hash->first] : 1;
}

static const ElfW(Sym) *find_gnu(const struct hf_object *object, const char *name, bool defined)
{
    struct gnu_hash table;
    if (!open_gnu(object, &table))
        return NULL;
    const ElfW(Addr) *bloom = (const void *)(object->gnu_hash + 4);
    const uint32_t bloom_words = object->gnu_hash[2], shift = object->gnu_hash[3];
    const unsigned bits = sizeof(ElfW(Addr)) * 8;
    uint32_t hash = hash_gnu(name);
    ElfW(Addr) word = bloom[(hash / bits) & (bloom_words - 1)];
    if (((word >> (hash % bits)) & (word >> ((hash >> shift % 32) % bits)) & 1) == 0)
        return NULL;
    for (uint32_t i = table.buckets[hash % table.buckets_count]; i >= table.first; i++) {
        uint32_t entry = chain_at(&table, i);
        if ((entry | 1) == (hash | 1) && symbol_is(object, i, name, defined))
            return &object->symbols[i];
        if ((entry & 1) != 0)
            break;
    }
    return NULL;
}

static const ElfW(Sym) *find_sysv(const struct hf_object *object, const char *name, bool defined)
{
    const uint32_t *table = object->sysv_hash;
    uint32_t buckets = table[0], count = table[1];
    const uint32_t *bucket = table + 2;
    const uint32_t *chain = bucket + buckets;
    if (buckets == 0 || (size_t)buckets + count > object->sysv_hash_capacity - 2)
        return NULL;
    for (uint32_t i = bucket[hash_sysv(name) % buckets], seen = 0;
         i != STN_UNDEF && i < count && seen < count; i = chain[i], seen++)
        if (symbol_is(object, i, name, defined))
            return &object->symbols[i];
    return NULL;
}

static const ElfW(Sym) *find(const struct hf_object *object, const char *name, bool defined)
{
    if (object->gnu_hash != NULL)
        return find_gnu(object, name, defined);
    return object->sysv_hash != NULL ? find_sysv(object, name, defined) : NULL;
}

const ElfW(Sym) *hf_object_symbol(const struct hf_object *object, const char *name)
{
    return find(object, name, true);
}

const ElfW(Sym) *hf_object_next_version(const struct hf_object *object, const ElfW(Sym) *symbol)
{
    struct gnu_hash table;
    size_t i = (size_t)(symbol - object->symbols);
    if (!open_gnu(object, &table))
        return NULL;
    while (i + 1 < object->symbols_capacity && (chain_at(&table, (uint32_t)i) & 1) == 0)
        if (object->symbols[++i].st_name == symbol->st_name)
            return &object->symbols[i];
    return NULL;
}

size_t hf_object_symbols_end(const struct hf_object *object)
{
    struct gnu_hash table;
    uint32_t last = 0;
    if (object->sysv_hash != NULL)
        return smaller(object->sysv_hash[1], object->symbols_capacity);
    if (!open_gnu(object, &table))
        return 0;
    for (uint32_t i = 0; i < table.buckets_count; i++)
        last = table.buckets[i] > last ? table.buckets[i] : last;
    if (last < table.first)
        return smaller(table.first, object->symbols_capacity);
    while ((chain_at(&table, last) & 1) == 0)
        last++;
    return smaller((size_t)last + 1, object->symbols_capacity);
}

void *hf_object_plt(const struct hf_object *object, const char *name)
{
    const ElfW(Sym) *symbol = find(object, name, false);
    return symbol != NULL && symbol->st_value != 0 ? (void *)(object->base + symbol->st_value)
                                                   : NULL;
}

void *hf_object_address(const struct hf_object *object, const char *name)
{
    const ElfW(Sym) *symbol = hf_object_symbol(object, name);
    unsigned type = symbol != NULL ? ELF64_ST_TYPE(symbol->st_info) : STT_NOTYPE;
    if (symbol == NULL || symbol->st_value == 0 || type == STT_GNU_IFUNC || type == STT_TLS)
        return NULL;
    return (void *)(object->base + symbol->st_value);
}

/* What lies at an offset in the table of needed versions, or NULL. */
static const void *need_at(const struct hf_object *object, size_t offset, size_t size)
{
    return size <= object->needs_capacity && offset <= object->needs_capacity - size
               ? (const char *)object->needs + offset
               : NULL;
}

const char *hf_object_provider(const struct hf_object *object, size_t symbol_index)
{
    if (symbol_index >= object->versions_capacity)
        return NULL;
    unsigned wanted = object->versions[symbol_index] & 0x7fff;
    size_t at = 0;
    for (size_t i = 0; i < object->needs_count; i++) {
        const ElfW(Verneed) *need = need_at(object, at, sizeof *need);
        size_t version_at = at + (need != NULL ? need->vn_aux : 0);
        for (unsigned j = 0; need != NULL && j < need->vn_cnt; j++) {
            const ElfW(Vernaux) *version = need_at(object, version_at, sizeof *version);
            if (version == NULL)
                return NULL;
            if ((version->vna_other & 0x7fff) == wanted)
                return need->vn_file < object->strings_size ? object->strings + need->vn_file
                                                            : NULL;
            if (version->vna_next == 0)
                break;
            version_at += version->vna_next;
        }
        if (need == NULL || need->vn_next == 0)
            break;
        at += need->vn_next;
    }
    return NULL;
}

void hf_object_segments(struct hf_object *object)
{
    find_headers(object);
    const ElfW(Phdr) *header = object->headers;
    const size_t count = object->headers_count;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    const size_t capacity = sizeof object->writable / sizeof object->writable[0];
    object->relro_start = object->relro_size = 0;
    object->writable_count = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t start = object->base + header[i].p_vaddr;
        uintptr_t end = start + header[i].p_memsz;
        if (header[i].p_type == PT_GNU_RELRO) {
            /* The loader rounds both ends down. */
            object->relro_start = start & ~page;
            object->relro_size = (end & ~page) - object->relro_start;
        } else if (header[i].p_type == PT_LOAD && (header[i].p_flags & PF_W) != 0 &&
                   object->writable_count < capacity) {
            object->writable[object->writable_count].start = start;
            object->writable[object->writable_count++].size = header[i].p_memsz;
        }
    }
}

/* The object with its program headers, also before glibc 2.35. */
static const struct hf_object *with_headers(const struct hf_object *object,
                                            struct hf_object *opened)
{
    if (object->headers != NULL || hf_dl_find_object != NULL)
        return object;
    *opened = *object;
    find_headers(opened);
    return opened;
}

/* Finds a note in a segment of notes, whose contents lie behind `after`. */
static const void *note_in(const char *at, size_t left, size_t alignment, const char *owner,
                           uint32_t type, const char *after, size_t *size)
{
    const size_t name_size = strlen(owner) + 1;
    while (left >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        const size_t data = (sizeof *note + note->n_namesz + alignment - 1) & -alignment;
        const size_t next = (data + note->n_descsz + alignment - 1) & -alignment;
        if (data > left || note->n_descsz > left - data)
            break;
        if (note->n_type == type && note->n_namesz == name_size && at + data > after &&
            memcmp(note + 1, owner, name_size) == 0) {
            *size = note->n_descsz;
            return at + data;
        }
        if (next > left)
            break;
        at += next;
        left -= next;
    }
    return NULL;
}

/* How many bytes of notes can be read. Those in the page of the program headers can; behind the end
 * of the file nothing can, whatever its segments say. */
static size_t readable(const struct hf_object *object, const char *notes, size_t size)
{
    enum { PAGE = 4096 /* or larger */, SIZE_MOST = 1 << 20 };
    const uintptr_t start = (uintptr_t)notes, known = (uintptr_t)object->headers / PAGE;
    char byte;
    if (size == 0 || (hf_object_protection(object, start) & PF_R) == 0)
        return 0;
    size = smaller(size, SIZE_MOST);
    for (uintptr_t page = start / PAGE; page <= (start + size - 1) / PAGE; page++)
        if (page != known && !hf_maps_read((const void *)(page * PAGE), &byte, sizeof byte))
            return page * PAGE > start ? page * PAGE - start : 0;
    return size;
}

const void *hf_object_note(const struct hf_object *object, const char *owner, uint32_t type,
                           const void *after, size_t *size)
{
    struct hf_object opened;
    object = with_headers(object, &opened);
    *size = 0;
    for (size_t i = 0; i < object->headers_count; i++) {
        const ElfW(Phdr) *header = &object->headers[i];
        if (header->p_type != PT_NOTE || header->p_vaddr % 4 != 0)
            continue;
        const char *notes = (const char *)object->base + header->p_vaddr;
        const size_t notes_size =
            readable(object, notes, smaller(header->p_memsz, hf_object_capacity(object, notes)));
        const void *found =
            note_in(notes, notes_size, header->p_align == 8 ? 8 : 4, owner, type, after, size);
        if (found != NULL)
            return found;
    }
    return NULL;
}

unsigned hf_object_protection(const struct hf_object *object, uintptr_t address)
{
    struct hf_object opened;
    object = with_headers(object, &opened);
    for (size_t i = 0; i < object->headers_count; i++) {
        const ElfW(Phdr) *header = &object->headers[i];
        if (header->p_type == PT_LOAD && address - object->base - header->p_vaddr < header->p_memsz)
            return header->p_flags & (PF_R | PF_W | PF_X);
    }
    return 0;
}

bool hf_object_writable(const struct hf_object *object, uintptr_t address)
{
    for (size_t i = 0; i < object->writable_count; i++)
        if (address - object->writable[i].start < object->writable[i].size)
            return true;
    return false;
}
