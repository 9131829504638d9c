/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See pristine.h. Owns nothing.
 *
 * What the loader left read-only cannot have changed. Of the rest, the words of the file's image
 * that relocations without a symbol fill are computed again; those with a symbol are taken from the
 * loaded object, where the loader has resolved and routing has changed them. Slots of functions are
 * taken from there as late as possible, since routing may change them at any time.
 */
#include "satellites/adopt/private/pristine.h"

#include "loader/elf/elf_file.h"
#include "satellites/adopt/private/outside.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/alloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef DT_RELR
#    define DT_RELRSZ 35
#    define DT_RELR   36
#endif

#if defined(__aarch64__)
#    define RELATIVE   R_AARCH64_RELATIVE
#    define GLOBAL     R_AARCH64_GLOB_DAT
#    define JUMP       R_AARCH64_JUMP_SLOT
#    define DESCRIPTOR R_AARCH64_TLSDESC
#else
#    define RELATIVE   R_X86_64_RELATIVE
#    define GLOBAL     R_X86_64_GLOB_DAT
#    define JUMP       R_X86_64_JUMP_SLOT
#    define DESCRIPTOR R_X86_64_TLSDESC
#endif

#define PARTS 4

/* Data that can be written: `known` bytes of it are in the file, the rest is zero. */
struct part {
    uintptr_t start;
    size_t size, known;
    char *image;
};

struct hf_pristine {
    struct hf_object object;
    size_t count;
    struct part parts[PARTS];
    uintptr_t thread_image; /* PT_TLS */
    size_t thread_known, thread_size;
    uintptr_t init, fini, init_array, fini_array;
    size_t init_count, fini_count;
    bool reaches_out;
    struct hf_outside *outside; /* NULL: it has nothing there */
};

/* ---- the image ---- */

static char *word_of(const struct hf_pristine *object, uintptr_t address, size_t size)
{
    for (size_t i = 0; i < object->count; i++) {
        const struct part *part = &object->parts[i];
        if (address >= part->start && address - part->start + size <= part->known)
            return part->image + (address - part->start);
    }
    return NULL;
}

static void take_live(const struct hf_pristine *object, uintptr_t address, size_t size)
{
    char *word = word_of(object, address, size);
    if (word != NULL)
        memcpy(word, (const void *)address, size);
}

static void relocate_one(const struct hf_pristine *object, const ElfW(Rela) *entry, bool slots_only)
{
    const uintptr_t address = object->object.base + entry->r_offset;
    const unsigned type = (unsigned)ELF64_R_TYPE(entry->r_info);
    if (type == JUMP || type == GLOBAL)
        take_live(object, address, sizeof(uintptr_t));
    else if (slots_only || type == 0)
        return;
    else if (type == RELATIVE) {
        const uintptr_t value = object->object.base + (uintptr_t)entry->r_addend;
        char *word = word_of(object, address, sizeof value);
        if (word != NULL)
            memcpy(word, &value, sizeof value);
    } else
        take_live(object, address, type == DESCRIPTOR ? 2 * sizeof(uintptr_t) : sizeof(uintptr_t));
}

static void relocate(const struct hf_pristine *object, bool slots_only)
{
    const struct hf_object *loaded = &object->object;
    const ElfW(Rela) *entry = loaded->rela;
    for (size_t i = 0; i < loaded->rela_size / sizeof *entry; i++)
        relocate_one(object, &entry[i], slots_only);
    entry = loaded->jump_relocations;
    for (size_t i = 0; i < loaded->jump_relocations_size / sizeof *entry; i++)
        relocate_one(object, &entry[i], slots_only);
}

static void add_base(const struct hf_pristine *object, uintptr_t address)
{
    uintptr_t value;
    char *word = word_of(object, address, sizeof value);
    if (word == NULL)
        return;
    memcpy(&value, word, sizeof value);
    value += object->object.base;
    memcpy(word, &value, sizeof value);
}

/* DT_RELR: addresses, each followed by bits for the 63 words behind it. */
static void relocate_packed(const struct hf_pristine *object, const uintptr_t *entries,
                            size_t count)
{
    uintptr_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if ((entries[i] & 1) == 0) {
            next = object->object.base + entries[i];
            add_base(object, next);
            next += sizeof(uintptr_t);
            continue;
        }
        for (unsigned bit = 1; bit < 64; bit++)
            if ((entries[i] >> bit & 1) != 0)
                add_base(object, next + (bit - 1) * sizeof(uintptr_t));
        next += 63 * sizeof(uintptr_t);
    }
}

/* ---- what the file says ---- */

static int add_part(struct hf_pristine *object, struct hf_elf *elf, const Elf64_Phdr *segment)
{
    const uintptr_t start = object->object.base + segment->p_vaddr, end = start + segment->p_memsz;
    const uintptr_t fixed = object->object.relro_start, free = fixed + object->object.relro_size;
    uintptr_t from = start;
    /* The linker puts what is fixed in front. */
    if (object->object.relro_size > 0 && fixed < end && free > start) {
        if (fixed > start)
            return -ENOTSUP;
        from = free;
    }
    if (from >= end)
        return 0;
    if (object->count == PARTS)
        return -ENOTSUP;
    struct part *part = &object->parts[object->count];
    const uintptr_t known = start + segment->p_filesz;
    *part =
        (struct part){.start = from, .size = end - from, .known = known > from ? known - from : 0};
    if (part->known > 0 && (part->image = hf_malloc(part->known)) == NULL)
        return -ENOMEM;
    object->count++;
    return part->known > 0
               ? hf_elf_read(elf, segment->p_offset + (from - start), part->image, part->known)
               : 0;
}

/* Whether the file is laid out as what is loaded; somebody may have put another in its place. */
static bool is_laid_out_so(const struct hf_object *object, struct hf_elf *elf)
{
    Elf64_Phdr segment;
    size_t count = 0;
    bool is_same = true;
    for (size_t cursor = 0; is_same && hf_elf_segment(elf, &cursor, &segment); count++)
        is_same = count < object->headers_count &&
                  memcmp(&segment, &object->headers[count], sizeof segment) == 0;
    return is_same && count == object->headers_count;
}

static int read_segments(struct hf_pristine *object, struct hf_elf *elf)
{
    Elf64_Phdr segment, dynamic = {0};
    int error = 0;
    for (size_t cursor = 0; error == 0 && hf_elf_segment(elf, &cursor, &segment);) {
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)
            error = (segment.p_flags & PF_X) == 0 ? add_part(object, elf, &segment) : -ENOTSUP;
        if (segment.p_type == PT_DYNAMIC)
            dynamic = segment;
        if (segment.p_type != PT_TLS)
            continue;
        object->thread_image = object->object.base + segment.p_vaddr;
        object->thread_known = segment.p_filesz;
        object->thread_size = segment.p_memsz;
    }
    /* The loader relocates it, without relocations. patchelf moves it behind what is fixed. */
    if (error == 0)
        take_live(object, object->object.base + dynamic.p_vaddr, dynamic.p_filesz);
    return error;
}

static uintptr_t tag(struct hf_elf *elf, int64_t tag)
{
    uint64_t value;
    return hf_elf_tag(elf, tag, &value) ? value : 0;
}

static int read_file(struct hf_pristine *object, struct hf_elf *elf)
{
    /* Relocations of other kinds are those of other machines. */
    if (!is_laid_out_so(&object->object, elf) || tag(elf, DT_TEXTREL) != 0 ||
        tag(elf, DT_REL) != 0 ||
        (object->object.jump_relocations_size > 0 && !object->object.jump_is_rela))
        return -ENOTSUP;
    const uintptr_t base = object->object.base;
    int error = hf_outside_imported(elf, &object->reaches_out);
    if (error == 0)
        error = read_segments(object, elf);
    if (error != 0)
        return error;
    if (tag(elf, DT_RELR) != 0)
        relocate_packed(object, (const uintptr_t *)(base + tag(elf, DT_RELR)),
                        tag(elf, DT_RELRSZ) / sizeof(uintptr_t));
    relocate(object, false);
    object->init = tag(elf, DT_INIT) != 0 ? base + tag(elf, DT_INIT) : 0;
    object->fini = tag(elf, DT_FINI) != 0 ? base + tag(elf, DT_FINI) : 0;
    object->init_array = base + tag(elf, DT_INIT_ARRAY);
    object->init_count = tag(elf, DT_INIT_ARRAYSZ) / sizeof(uintptr_t);
    object->fini_array = base + tag(elf, DT_FINI_ARRAY);
    object->fini_count = tag(elf, DT_FINI_ARRAYSZ) / sizeof(uintptr_t);
    return 0;
}

int hf_pristine_note(struct hf_pristine **out, const struct link_map *map)
{
    struct hf_elf elf;
    struct hf_pristine *object = hf_malloc(sizeof *object);
    if (object == NULL)
        return -ENOMEM;
    *object = (struct hf_pristine){0};
    int error = hf_dynlink_open(map, &object->object) ? 0 : -ENOTSUP;
    if (error == 0) {
        hf_object_segments(&object->object);
        error = hf_elf_open(&elf, hf_dynlink_name(map));
        if (error == 0)
            error = hf_elf_dynamic(&elf);
        if (error == 0)
            error = read_file(object, &elf);
        hf_elf_close(&elf);
    }
    if (error == 0)
        *out = object;
    else
        hf_pristine_forget(object);
    return error;
}

int hf_pristine_watch(struct hf_pristine *object, const struct link_map *map)
{
    return object->reaches_out ? hf_outside_watch(&object->outside, map) : 0;
}

const char *hf_pristine_left(const struct hf_pristine *object)
{
    return object->outside != NULL ? hf_outside_left(object->outside) : NULL;
}

void hf_pristine_forget(struct hf_pristine *object)
{
    for (size_t i = 0; i < PARTS; i++)
        hf_free(object->parts[i].image);
    hf_free(object);
}

/* ---- what an object for all interpreters has ---- */

/* Libraries whose memory is no module's. */
static bool is_the_systems(const char *name)
{
    static const char *const names[] = {"libc.so",   "libm.so",     "libpthread.so", "libdl.so",
                                        "librt.so",  "ld-linux",    "libgcc_s.so",   "libstdc++.so",
                                        "libpython", "libhomefree."};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is = is || strncmp(name, names[i], strlen(names[i])) == 0;
    return is;
}

static bool needs_others(const struct link_map *map, const char *strings)
{
    bool needs = false;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        needs =
            needs || (entry->d_tag == DT_NEEDED && !is_the_systems(strings + entry->d_un.d_val));
    return needs;
}

/* Whether a word may be the address of memory that is no loaded object's. */
static bool is_memory(uintptr_t word)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;
    const bool is_mapped = word >= page && (mincore((void *)(word & -page), 1, &resident) == 0 ||
                                            errno == EAGAIN); /* the kernel cannot tell now */
    return is_mapped && hf_dynlink_find((const void *)word) == NULL;
}

static bool part_holds(const struct part *part)
{
    bool holds = false;
    for (size_t at = -part->start % sizeof(uintptr_t);
         at + sizeof(uintptr_t) <= part->size && !holds; at += sizeof(uintptr_t)) {
        const uintptr_t now = *(const uintptr_t *)(part->start + at);
        uintptr_t before = 0;
        if (at < part->known)
            memcpy(&before, part->image + at,
                   part->known - at < sizeof before ? part->known - at : sizeof before);
        holds = now != before && is_memory(now);
    }
    return holds;
}

const char *hf_pristine_keeps(const struct link_map *map)
{
    struct hf_pristine *object;
    if (hf_pristine_note(&object, map) != 0)
        return "it serves all interpreters, and its data is not known";
    const char *why = NULL;
    if (object->reaches_out || object->thread_size > 0)
        why = "it serves all interpreters, and may have threads or their data";
    else if (needs_others(map, object->object.strings))
        why = "it serves all interpreters, and so do libraries that it needs";
    for (size_t i = 0; i < object->count && why == NULL; i++)
        if (part_holds(&object->parts[i]))
            why = "it serves all interpreters, and has memory";
    hf_pristine_forget(object);
    return why;
}

/* ---- making new ---- */

static void call(uintptr_t function)
{
    char *arguments[] = {program_invocation_name, NULL};
    if (function != 0 && function != UINTPTR_MAX)
        ((void (*)(int, char **, char **))function)(1, arguments, environ);
}

/* How many destructors the loader will run when the process ends: none of an object whose
 * constructors have not run again. */
static void expect_end(const struct hf_pristine *object, size_t count)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (ElfW(Dyn) *entry = object->object.map->l_ld; entry->d_tag != DT_NULL; entry++) {
        const uintptr_t address = (uintptr_t)entry;
        const bool is_fixed = address - object->object.relro_start < object->object.relro_size;
        void *const start = (void *)(address & -page);
        const size_t size = (address & (page - 1)) + sizeof *entry;
        if (entry->d_tag != DT_FINI_ARRAYSZ ||
            (is_fixed && mprotect(start, size, PROT_READ | PROT_WRITE) != 0))
            continue;
        entry->d_un.d_val = count * sizeof(uintptr_t);
        if (is_fixed)
            (void)mprotect(start, size, PROT_READ);
    }
}

void hf_pristine_finish(const struct hf_pristine *object)
{
    const uintptr_t *functions = (const uintptr_t *)object->fini_array;
    if (object->outside != NULL)
        hf_outside_end(object->outside);
    for (size_t i = object->fini_count; i-- > 0;)
        call(functions[i]);
    call(object->fini);
    if (object->outside != NULL)
        hf_outside_drop_keys(object->outside);
}

void hf_pristine_begin(const struct hf_pristine *object)
{
    const uintptr_t *functions = (const uintptr_t *)object->init_array;
    expect_end(object, object->fini_count);
    call(object->init);
    for (size_t i = 0; i < object->init_count; i++)
        call(functions[i]);
}

/* Whole pages go back to the system. */
static void clear(uintptr_t start, uintptr_t end)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (start + page - 1) & -page, to = end & -page;
    if (from < to && madvise((void *)from, to - from, MADV_DONTNEED) == 0) {
        memset((void *)start, 0, from - start);
        start = to;
    }
    memset((void *)start, 0, end - start);
}

void hf_pristine_restore(struct hf_pristine *object)
{
    relocate(object, true);
    for (size_t i = 0; i < object->count; i++) {
        const struct part *part = &object->parts[i];
        if (part->known > 0)
            memcpy((void *)part->start, part->image, part->known);
        clear(part->start + part->known, part->start + part->size);
    }
    expect_end(object, 0);
}

void hf_pristine_restore_thread(const struct hf_pristine *object, void *handle)
{
    void *own = NULL;
    if (object->outside != NULL && hf_outside_has_objects(object->outside))
        return; /* it has been here before, since the object is new */
    if (object->thread_size == 0 || dlinfo(handle, RTLD_DI_TLS_DATA, &own) != 0 || own == NULL)
        return;
    memcpy(own, (const void *)object->thread_image, object->thread_known);
    memset((char *)own + object->thread_known, 0, object->thread_size - object->thread_known);
}
