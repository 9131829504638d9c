/*
 * Reads the loader's lists and the dynamic sections of loaded objects. Owns nothing. See dynlink.h
 * for what may be called when.
 *
 * The dynamic linker has accepted these tables and follows them without checks of its own, so this
 * file trusts them as far. Names are compared only within the string table's size.
 */
#include "alloc/base/dynlink.h"

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

/* <link.h>'s r_debug_extended, which older headers lack. */
struct hf_debug {
    struct r_debug base;
    struct hf_debug *next;
};

/*
 * Stores the program's load bias; false if it cannot be found. PT_PHDR gives it. A program without
 * an interpreter (static PIE) has no PT_PHDR: there the bias is the kernel's AT_ENTRY less the
 * entry in the ELF header, which starts the page that holds the program headers.
 */
static bool bias_of_program(const ElfW(Phdr) *header, size_t count, uintptr_t *bias)
{
    for (size_t i = 0; i < count; i++)
        if (header[i].p_type == PT_PHDR) {
            *bias = (uintptr_t)header - header[i].p_vaddr;
            return true;
        }
    const uintptr_t entry = getauxval(AT_ENTRY), page = getauxval(AT_PAGESZ);
    const ElfW(Ehdr) *file = (const void *)((uintptr_t)header & -page);
    const uintptr_t offset = (uintptr_t)header - (uintptr_t)file;
    if (entry == 0 || page == 0 || offset < sizeof *file ||
        memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phoff != offset ||
        file->e_phnum != count)
        return false;
    *bias = entry - file->e_entry;
    return true;
}

static const struct hf_debug *debug_of_program(void)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR);
    size_t count = getauxval(AT_PHNUM);
    uintptr_t bias;
    const ElfW(Dyn) *dynamic = NULL;
    if (header == NULL || !bias_of_program(header, count, &bias))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (header[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(bias + header[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_DEBUG)
            return (const void *)dynamic->d_un.d_ptr;
    return NULL;
}

static const char own_address; /* any address in this object */

size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX])
{
    const struct hf_debug *debug = debug_of_program();
    size_t count = 0;
    if (debug == NULL)
        debug = (const void *)&_r_debug;
    while (debug != NULL && count < HF_NAMESPACES_MAX) {
        if (debug->base.r_map != NULL)
            first[count++] = debug->base.r_map;
        debug = debug->base.r_version >= 2 ? debug->next : NULL;
    }
    /* A static program at a fixed address has no dynamic section and so no DT_DEBUG: take the list
     * that holds this object. */
    const struct link_map *map = count == 0 ? hf_dynlink_find_fast(&own_address) : NULL;
    while (map != NULL && map->l_prev != NULL)
        map = map->l_prev;
    if (map != NULL)
        first[count++] = map;
    return count;
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

static bool symbol_is(const struct hf_object *object, const ElfW(Sym) *symbol, const char *name,
                      bool defined)
{
    return (symbol->st_shndx != SHN_UNDEF) == defined && symbol->st_name < object->strings_size &&
           strcmp(object->strings + symbol->st_name, name) == 0;
}

static const ElfW(Sym) *find_gnu(const struct hf_object *object, const char *name, bool defined)
{
    const uint32_t *table = object->gnu_hash;
    uint32_t buckets = table[0], first = table[1], bloom_words = table[2], shift = table[3];
    const ElfW(Addr) *bloom = (const void *)(table + 4);
    const uint32_t *bucket = (const void *)(bloom + bloom_words);
    const uint32_t *chain = bucket + buckets;
    const unsigned bits = sizeof(ElfW(Addr)) * 8;
    uint32_t hash = hash_gnu(name);
    if (buckets == 0 || bloom_words == 0)
        return NULL;
    ElfW(Addr) word = bloom[(hash / bits) & (bloom_words - 1)];
    if (((word >> (hash % bits)) & (word >> ((hash >> shift) % bits)) & 1) == 0)
        return NULL;
    for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
        uint32_t entry = chain[i - first];
        if ((entry | 1) == (hash | 1) && symbol_is(object, &object->symbols[i], name, defined))
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
    if (buckets == 0)
        return NULL;
    for (uint32_t i = bucket[hash_sysv(name) % buckets], seen = 0; i != STN_UNDEF && seen < count;
         i = chain[i], seen++)
        if (i < count && symbol_is(object, &object->symbols[i], name, defined))
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

const char *hf_object_provider(const struct hf_object *object, size_t symbol_index)
{
    if (object->versions == NULL || object->needs == NULL)
        return NULL;
    unsigned wanted = object->versions[symbol_index] & 0x7fff;
    const ElfW(Verneed) *need = object->needs;
    for (size_t i = 0; i < object->needs_count; i++) {
        const ElfW(Vernaux) *version = (const void *)((const char *)need + need->vn_aux);
        for (unsigned j = 0; j < need->vn_cnt; j++) {
            if ((version->vna_other & 0x7fff) == wanted)
                return need->vn_file < object->strings_size ? object->strings + need->vn_file
                                                            : NULL;
            version = (const void *)((const char *)version + version->vna_next);
        }
        if (need->vn_next == 0)
            break;
        need = (const void *)((const char *)need + need->vn_next);
    }
    return NULL;
}

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
    bool is_known = false;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if (hf_dl_find_object((void *)(uintptr_t)inside[i], &found) == 0 &&
            found.link_map == object->map) {
            is_known = true;
            if (header_at(found.map_start) != NULL)
                return found.map_start;
        }
    return is_known ? NULL : header_at((const void *)object->base);
}

/* Finds the program headers: through the ELF header, or the auxiliary vector for the program. */
static const ElfW(Phdr) *program_headers(const struct hf_object *object, size_t *count)
{
    *count = object->headers_count;
    if (object->headers != NULL)
        return object->headers;
    if (object->map->l_prev == NULL && object->map->l_name[0] == '\0') {
        *count = getauxval(AT_PHNUM);
        return (const void *)getauxval(AT_PHDR);
    }
    const ElfW(Ehdr) *file = hf_object_header(object);
    if (file == NULL)
        return NULL;
    *count = file->e_phnum;
    return (const void *)((const char *)file + file->e_phoff);
}

void hf_object_segments(struct hf_object *object)
{
    size_t count = 0;
    const ElfW(Phdr) *header = program_headers(object, &count);
    object->headers = header;
    object->headers_count = count;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    const size_t room = sizeof object->writable / sizeof object->writable[0];
    object->relro_start = object->relro_size = 0;
    object->writable_count = 0;
    for (size_t i = 0; header != NULL && i < count; i++) {
        uintptr_t start = object->base + header[i].p_vaddr;
        uintptr_t end = start + header[i].p_memsz;
        if (header[i].p_type == PT_GNU_RELRO) {
            /* The loader rounds both ends down. */
            object->relro_start = start & ~page;
            object->relro_size = (end & ~page) - object->relro_start;
        } else if (header[i].p_type == PT_LOAD && (header[i].p_flags & PF_W) != 0 &&
                   object->writable_count < room) {
            object->writable[object->writable_count].start = start;
            object->writable[object->writable_count++].size = header[i].p_memsz;
        }
    }
}

const void *hf_object_note(const struct hf_object *object, const char *owner, uint32_t type,
                           size_t *size)
{
    size_t count = 0;
    const ElfW(Phdr) *header = program_headers(object, &count);
    const size_t name_size = strlen(owner) + 1;
    *size = 0;
    for (size_t i = 0; header != NULL && i < count; i++) {
        const ElfW(Nhdr) *note = (const void *)(object->base + header[i].p_vaddr);
        const size_t start = sizeof *note + ((name_size + 3) & ~(size_t)3);
        if (header[i].p_type != PT_NOTE || header[i].p_memsz < start ||
            note->n_namesz != name_size || note->n_type != type ||
            memcmp(note + 1, owner, name_size) != 0 || note->n_descsz > header[i].p_memsz - start)
            continue;
        *size = note->n_descsz;
        return (const char *)note + start;
    }
    return NULL;
}

unsigned hf_object_protection(const struct hf_object *object, uintptr_t address)
{
    size_t count = 0;
    const ElfW(Phdr) *header = program_headers(object, &count);
    for (size_t i = 0; header != NULL && i < count; i++)
        if (header[i].p_type == PT_LOAD &&
            address - (object->base + header[i].p_vaddr) < header[i].p_memsz)
            return header[i].p_flags & (PF_R | PF_W | PF_X);
    return 0;
}

bool hf_object_writable(const struct hf_object *object, uintptr_t address)
{
    for (size_t i = 0; i < object->writable_count; i++)
        if (address - object->writable[i].start < object->writable[i].size)
            return true;
    return false;
}
