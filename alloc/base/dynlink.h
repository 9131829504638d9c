/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam to the dynamic linker: lists the loaded objects of every namespace and reads their
 * dynamic sections. No other file depends on the details of <link.h>'s structures.
 *
 * Constraint: callers run before the other objects are relocated, in constructors and in the fatal
 * function, so nothing here allocates or takes a lock, except that before glibc 2.35
 * hf_dynlink_find() and whatever reads an object's headers take the loader's. The lists are stable
 * only under the loader's lock (in a constructor, or under hf_loader_lock_run() of loader/);
 * without it a walk may miss or repeat an object.
 *
 * Relies on these properties of glibc: r_debug and DT_DEBUG (gABI), r_debug_extended.r_next from
 * glibc 2.35 on (<link.h>), _dl_find_object from 2.35 on (<dlfcn.h>), d_ptr entries relocated in
 * place except in the vdso (elf/get-dynamic-info.h, 2.36).
 */
#ifndef HOMEFREE_ALLOC_BASE_DYNLINK_H
#define HOMEFREE_ALLOC_BASE_DYNLINK_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_NAMESPACES_MAX 16 /* glibc's DL_NNS */

/* The located dynamic section of a loaded object. A table that it lacks, or that does not lie in
 * one of its segments, is NULL, its count 0. */
struct hf_object {
    const struct link_map *map;
    uintptr_t base; /* load bias, added to the file's addresses */
    const ElfW(Sym) *symbols;
    const char *strings;
    size_t strings_size; /* what starts before this ends inside the segment */
    const ElfW(Half) *versions;
    const ElfW(Verneed) *needs;
    size_t needs_count;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const void *jump_relocations;
    size_t jump_relocations_size;
    const ElfW(Rela) *rela;
    size_t rela_size;
    size_t rela_relative_count; /* leading entries without a symbol */
    /* How many entries there is room for in the segment, because nobody says how many there are;
     * of needs, bytes. A hash table has at least its first four words, or two. */
    uint32_t symbols_capacity, versions_capacity, needs_capacity, gnu_hash_capacity,
        sysv_hash_capacity;
    bool jump_is_rela;
    const char *soname;
    /* NULL where they are not known; before glibc 2.35 only hf_object_segments() and others that
     * need them look for them. */
    const ElfW(Phdr) *headers;
    size_t headers_count;
    /* Filled by hf_object_segments(): the whole pages that the loader made read-only after
     * relocation, and the segments mapped writable. */
    uintptr_t relro_start;
    size_t relro_size;
    struct {
        uintptr_t start;
        size_t size;
    } writable[4];
    size_t writable_count;
};

/* Stores the first object of each namespace, the base namespace first. Returns their number. */
size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX]);

/* The first object of the base namespace; NULL if it is not known. */
const struct link_map *hf_dynlink_first(void);

/* Whether all objects are relocated: false while the process starts or another object is loaded. */
bool hf_dynlink_is_settled(void);

/* Locates an object's dynamic section. False if the object has no symbol table. */
bool hf_dynlink_open(const struct link_map *map, struct hf_object *out);

/* An object's path; for the program, the path it was started by. Never NULL or empty. */
const char *hf_dynlink_name(const struct link_map *map);

/* The object that holds an address, in any namespace, or NULL. Lock-free from glibc 2.35 on; before
 * that it takes the loader's lock. */
const struct link_map *hf_dynlink_find(const void *address);

/* The same, lock-free and async-signal-safe; always NULL before glibc 2.35. */
const struct link_map *hf_dynlink_find_fast(const void *address);

/* From an object's first address to behind its last. Not all of it need be mapped. */
struct hf_span {
    uintptr_t start, end;
};

/* The table of unwind information (.eh_frame_hdr) of the object that holds an address. Lock-free
 * and async-signal-safe; NULL if there is none, and always before glibc 2.35. */
const void *hf_dynlink_unwind_table(const void *address, struct hf_span *object);

/* How many bytes from an address on lie in one loaded segment of the object: 0 outside. Whatever
 * follows an address that the object's file names asks this first. Where the segments are not known
 * (before glibc 2.35, and while the object is being loaded), the file is trusted as the dynamic
 * linker trusts it. */
size_t hf_object_capacity(const struct hf_object *object, const void *address);

/* The contents of the object's note of that owner and type, and their size; NULL and 0 if there is
 * none. `after`: of several, the first behind the contents of this one; NULL: the first. */
const void *hf_object_note(const struct hf_object *object, const char *owner, uint32_t type,
                           const void *after, size_t *size);

/* The defined dynamic symbol of that name, or NULL. */
const ElfW(Sym) *hf_object_symbol(const struct hf_object *object, const char *name);

/* The next definition of the same name: names of a GNU hash table's bucket, and so the versions of
 * a name, are next to each other. NULL after the last. */
const ElfW(Sym) *hf_object_next_version(const struct hf_object *object, const ElfW(Sym) *symbol);

/* One past the last symbol that the hash tables tell of; 0 without one. */
size_t hf_object_symbols_end(const struct hf_object *object);

/* The address of a defined function or data object; NULL if undefined, thread-local or an IFUNC. */
void *hf_object_address(const struct hf_object *object, const char *name);

/* The address of the PLT entry that is an undefined function's canonical address, as in programs
 * linked at a fixed address; NULL if there is none. */
void *hf_object_plt(const struct hf_object *object, const char *name);

/* The soname that an undefined symbol's version names, or NULL if the symbol has no version. */
const char *hf_object_provider(const struct hf_object *object, size_t symbol_index);

/* The ELF header, which every linker places at the start of the object's memory, or NULL. */
const ElfW(Ehdr) *hf_object_header(const struct hf_object *object);

/* Fills in relro_* and writable* from the program headers. Finds those first before glibc 2.35. */
void hf_object_segments(struct hf_object *object);

/* The file's protection flags (PF_R, …) for the segment that holds an address; 0 if none does. */
unsigned hf_object_protection(const struct hf_object *object, uintptr_t address);

/* Whether an address lies in a segment that hf_object_segments() found writable. */
bool hf_object_writable(const struct hf_object *object, uintptr_t address);

#endif
