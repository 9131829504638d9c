/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_object.h.
 *
 * An object begins with a mapping of its file's first page. Linkers may put two segments on that
 * page, which is then mapped twice; the second mapping lies among the addresses that the first
 * one's program headers claim.
 */
#include "loader/command/live/live_object.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OBJECTS_MOST = 4096, LINKS_MOST = 100000, NAMESPACES_MOST = 64, HEADERS_MOST = 64 };
#define PAGE        UINT64_C(4096)
#define IMAGE_MOST  (UINT64_C(256) << 20)
#define ADDRESS_END (UINT64_C(1) << 56)

/* ---- contents ------------------------------------------------------------------------------- */

/* What glibc has relocated in place. */
static bool is_address(int64_t tag)
{
    static const int64_t tags[] = {DT_HASH,   DT_PLTGOT, DT_STRTAB, DT_SYMTAB,  DT_RELA,
                                   DT_JMPREL, DT_VERSYM, DT_VERDEF, DT_VERNEED, DT_GNU_HASH};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (tags[i] == tag)
            return true;
    return false;
}

static void restore_dynamic(unsigned char *image, const Elf64_Phdr *segment, uint64_t extent,
                            uint64_t base)
{
    Elf64_Dyn entry;
    if (segment->p_offset > extent || segment->p_filesz > extent - segment->p_offset)
        return;
    for (uint64_t at = 0; at + sizeof entry <= segment->p_filesz; at += sizeof entry) {
        unsigned char *place = image + segment->p_offset + at;
        memcpy(&entry, place, sizeof entry);
        if (is_address(entry.d_tag) && entry.d_un.d_val >= base)
            entry.d_un.d_val -= base;
        memcpy(place, &entry, sizeof entry);
    }
}

/* Reads page by page: some may be protected. */
static void read_pages(const struct hf_live_process *process, uint64_t address, unsigned char *out,
                       uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        const uint64_t left = PAGE - (address + done) % PAGE;
        const uint64_t part = left < size - done ? left : size - done;
        if (done == 0 && hf_live_read(process, address, out, size))
            return;
        (void)hf_live_read(process, address + done, out + done, part);
        done += part;
    }
}

static bool read_headers(const struct hf_live_process *process, uint64_t start, Elf64_Ehdr *header,
                         Elf64_Phdr *segments, size_t *count)
{
    if (!hf_live_read(process, start, header, sizeof *header) ||
        memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_phnum == 0 || header->e_phnum > HEADERS_MOST ||
        header->e_phentsize != sizeof *segments || header->e_phoff > PAGE)
        return false;
    *count = header->e_phnum;
    return hf_live_read(process, start + header->e_phoff, segments, *count * sizeof *segments);
}

/* The lowest address of the segments, to a page, and the highest. */
static bool measure(const Elf64_Phdr *segments, size_t count, uint64_t *low, uint64_t *high)
{
    *low = UINT64_MAX;
    *high = 0;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].p_type != PT_LOAD)
            continue;
        if (segments[i].p_vaddr >= ADDRESS_END || segments[i].p_memsz >= ADDRESS_END)
            return false;
        const uint64_t start = segments[i].p_vaddr & ~(PAGE - 1);
        const uint64_t end = segments[i].p_vaddr + segments[i].p_memsz;
        *low = start < *low ? start : *low;
        *high = end > *high ? end : *high;
    }
    return *low < *high;
}

static int open_image(const struct hf_live_process *process, uint64_t start,
                      struct hf_live_elf *out)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[HEADERS_MOST];
    size_t count;
    uint64_t low, high, extent = 0;
    if (!read_headers(process, start, &header, segments, &count) ||
        !measure(segments, count, &low, &high))
        return -ENOENT;
    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type != PT_LOAD)
            continue;
        if (segment->p_offset > IMAGE_MOST || segment->p_filesz > IMAGE_MOST - segment->p_offset)
            return -EFBIG;
        if (segment->p_offset + segment->p_filesz > extent)
            extent = segment->p_offset + segment->p_filesz;
    }
    if (extent < sizeof header || extent < header.e_phoff + count * sizeof segments[0])
        return -ENOENT;
    unsigned char *image = mmap(NULL, extent, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED)
        return -ENOMEM;
    const uint64_t base = start - low;
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_LOAD)
            read_pages(process, base + segments[i].p_vaddr, image + segments[i].p_offset,
                       segments[i].p_filesz);
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            restore_dynamic(image, &segments[i], extent, base);
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    memcpy(image, &header, sizeof header);
    memcpy(image + header.e_phoff, segments, count * sizeof segments[0]);
    const int result = hf_elf_open_memory(&out->elf, image, extent);
    if (result != 0) {
        (void)munmap(image, extent);
        return result;
    }
    out->image = image;
    out->size = extent;
    return 0;
}

int hf_live_elf_open(const struct hf_live_process *process, const struct hf_live_mapping *mapping,
                     struct hf_live_elf *out)
{
    *out = (struct hf_live_elf){.image = NULL};
    const int file = hf_live_open_file(process, mapping);
    if (file >= 0) {
        const int result = hf_elf_open_descriptor(&out->elf, file);
        close(file);
        return result;
    }
    out->elf.why = "its file is not there";
    return open_image(process, mapping->start, out);
}

void hf_live_elf_close(struct hf_live_elf *file)
{
    hf_elf_close(&file->elf);
    if (file->image != NULL)
        (void)munmap(file->image, file->size);
}

/* ---- finding them --------------------------------------------------------------------------- */

/* Where the object lies whose first page this mapping shows. */
static bool place(const struct hf_live_process *process, const struct hf_live_mapping *mapping,
                  struct hf_live_object *out)
{
    struct hf_live_elf file;
    Elf64_Phdr segment, segments[HEADERS_MOST];
    size_t count = 0;
    uint64_t low, high, dynamic = 0;
    if (hf_live_elf_open(process, mapping, &file) != 0)
        return false;
    for (size_t cursor = 0; count < HEADERS_MOST && hf_elf_segment(&file.elf, &cursor, &segment);) {
        segments[count++] = segment;
        if (segment.p_type == PT_DYNAMIC)
            dynamic = segment.p_vaddr;
    }
    hf_live_elf_close(&file);
    if (!measure(segments, count, &low, &high))
        return false;
    const uint64_t base = mapping->start - low;
    *out = (struct hf_live_object){
        .mapping = mapping,
        .base = base,
        .start = mapping->start,
        .end = base + high,
        .dynamic = dynamic != 0 ? base + dynamic : 0,
    };
    return true;
}

/* Whether the process can run code of it. */
static bool has_code(const struct hf_live_process *process, const struct hf_live_object *object)
{
    for (const struct hf_live_mapping *at = object->mapping;
         at < process->mappings + process->mappings_count && at->start < object->end; at++)
        if (at->executable && at->inode == object->mapping->inode)
            return true;
    return false;
}

static void mark_program(const struct hf_live_process *process, struct hf_live_objects *objects)
{
    char path[PATH_MAX];
    struct stat status;
    const ssize_t length = readlinkat(process->directory, "exe", path, sizeof path - 1);
    const bool known = fstatat(process->directory, "exe", &status, 0) == 0;
    for (size_t i = 0; i < objects->count; i++) {
        const struct hf_live_mapping *mapping = objects->items[i].mapping;
        const size_t size = mapping != NULL ? strlen(mapping->path) : 0;
        if (size == 0)
            continue;
        if ((known && (uint64_t)status.st_ino == mapping->inode) ||
            (length > 0 && (size_t)length >= size && memcmp(path, mapping->path, size) == 0 &&
             ((size_t)length == size || mapping->deleted))) {
            objects->items[i].program = true;
            return;
        }
    }
}

size_t hf_live_object_at(const struct hf_live_objects *objects, uint64_t address)
{
    for (size_t i = 0; i < objects->count; i++)
        if (address >= objects->items[i].start && address < objects->items[i].end)
            return i;
    return objects->count;
}

/* ---- the dynamic linker's lists ------------------------------------------------------------- */

/* glibc's <link.h>. */
struct list {
    int32_t version, padding;
    uint64_t first, breakpoint;
    int32_t state, padding2;
    uint64_t linker, next; /* next: only from version 2 on */
};
struct link {
    uint64_t base, name, dynamic, next, previous;
};

/* The address in the program's DT_DEBUG; 0: none. */
static uint64_t find_lists(const struct hf_live_process *process,
                           const struct hf_live_objects *objects)
{
    enum { ENTRIES_MOST = 1024 };
    for (size_t i = 0; i < objects->count; i++)
        for (size_t e = 0; objects->items[i].dynamic != 0 && e < ENTRIES_MOST; e++) {
            Elf64_Dyn entry;
            if (!hf_live_read(process, objects->items[i].dynamic + e * sizeof entry, &entry,
                              sizeof entry) ||
                entry.d_tag == DT_NULL)
                break;
            if (entry.d_tag == DT_DEBUG && entry.d_un.d_ptr != 0)
                return entry.d_un.d_ptr;
        }
    return 0;
}

static void read_lists(const struct hf_live_process *process, struct hf_live_objects *objects)
{
    uint64_t at = find_lists(process, objects);
    size_t links = 0;
    for (size_t namespace = 0; at != 0 && namespace < NAMESPACES_MOST; namespace ++) {
        struct list list = {.next = 0};
        if (!hf_live_read(process, at, &list, offsetof(struct list, next)) ||
            (list.version >= 2 && !hf_live_read(process, at, &list, sizeof list)))
            return;
        struct link link;
        for (uint64_t next = list.first; next != 0 && links < LINKS_MOST; next = link.next) {
            if (!hf_live_read(process, next, &link, sizeof link))
                return;
            links++;
            const size_t index = hf_live_object_at(objects, link.dynamic);
            /* The dynamic linker is in every list. */
            if (index == objects->count || objects->items[index].listed)
                continue;
            objects->items[index].listed = true;
            objects->items[index].link = next;
            objects->items[index].name = link.name;
            objects->items[index].namespace = namespace;
            objects->items[index].position = links;
            objects->ordered = true;
        }
        at = list.next;
    }
}

static int compare(const void *left, const void *right)
{
    const struct hf_live_object *one = left, *other = right;
    if (one->namespace != other->namespace)
        return one->namespace < other->namespace ? -1 : 1;
    if (one->position != other->position)
        return one->position < other->position ? -1 : 1;
    return (one->start > other->start) - (one->start < other->start);
}

bool hf_live_objects_find(const struct hf_live_process *process, struct hf_live_objects *out)
{
    /* Each begins with a mapping. */
    const size_t most =
        process->mappings_count < OBJECTS_MOST ? process->mappings_count : OBJECTS_MOST;
    *out = (struct hf_live_objects){.count = 0};
    out->items = calloc(most + 1, sizeof *out->items);
    if (out->items == NULL)
        return false;
    uint64_t end = 0;
    for (size_t i = 0; i < process->mappings_count && !out->left_out; i++) {
        const struct hf_live_mapping *mapping = &process->mappings[i];
        if (mapping->inode == 0 || mapping->offset != 0 || mapping->shared)
            continue;
        if (mapping->start < end && out->count > 0 &&
            mapping->inode == out->items[out->count - 1].mapping->inode)
            continue;
        out->left_out = out->count == OBJECTS_MOST || hf_live_takes_too_long(process);
        if (out->left_out || !place(process, mapping, &out->items[out->count]) ||
            !has_code(process, &out->items[out->count]))
            continue;
        end = out->items[out->count].end;
        out->count++;
    }
    mark_program(process, out);
    read_lists(process, out);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (!out->ordered || out->items[i].listed)
            out->items[kept++] = out->items[i];
    out->count = kept;
    if (kept > 1)
        qsort(out->items, kept, sizeof *out->items, compare);
    return true;
}

void hf_live_objects_free(struct hf_live_objects *objects)
{
    free(objects->items);
    objects->items = NULL;
    objects->count = 0;
}
