/*
 * The seam to the dynamic linker: which objects are loaded, in every namespace, and what their
 * dynamic sections say. Nothing else in homefree knows <link.h>'s structures' quirks.
 *
 * Constraint: this is read before relocation of others is over, inside constructors and in the
 * fatal function, so it allocates nothing, takes no lock and calls nothing that does. The lists of
 * objects are stable only under the loader's lock (in a constructor, or under
 * hf_loader_lock_call() of loader/); without it a walk may miss or repeat an object.
 *
 * Facts about glibc that this rests on: r_debug and DT_DEBUG (gABI), r_debug_extended.r_next from
 * glibc 2.35 on (<link.h>), _dl_find_object from 2.35 on (<dlfcn.h>), relocated d_ptr entries
 * except in the vdso (elf/get-dynamic-info.h, 2.36).
 */
#ifndef HOMEFREE_DYNLINK_H
#define HOMEFREE_DYNLINK_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_NAMESPACES_MAX 16 /* glibc's DL_NNS */

/* One loaded object's dynamic section, located. Pointers are NULL, counts 0, where it has none. */
struct hf_object {
    const struct link_map *map;
    uintptr_t base; /* load bias: what is added to the file's addresses */
    const ElfW(Sym) *symbols;
    const char *strings;
    size_t strings_size;
    const ElfW(Half) *versions;
    const ElfW(Verneed) *needs;
    size_t needs_count;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const void *jump_relocations;
    size_t jump_relocations_size;
    const ElfW(Rela) *rela;
    size_t rela_size;
    size_t rela_relative_count; /* leading entries that carry no symbol */
    bool jump_is_rela;
    const char *soname;
    /* Filled by hf_object_segments(): the range that the loader made read-only after relocation, in
     * whole pages, and what was writable before that. */
    uintptr_t relro_start;
    size_t relro_size;
    struct {
        uintptr_t start;
        size_t size;
    } writable[4];
    size_t writable_count;
};

/* The first object of each namespace, in order; the base namespace first. Result: how many. */
size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX]);

/* Locates an object's dynamic section. False for objects that have no symbol table. */
bool hf_dynlink_open(const struct link_map *map, struct hf_object *out);

/* An object's path; for the program the path it was started by. Never NULL or empty. */
const char *hf_dynlink_name(const struct link_map *map);

/* The object that holds an address, in any namespace; NULL if none. Lock-free from glibc 2.35 on.
 */
const struct link_map *hf_dynlink_find(const void *address);

/* The same, lock-free and async-signal-safe; NULL for all addresses before glibc 2.35. */
const struct link_map *hf_dynlink_find_fast(const void *address);

/* The object's defined dynamic symbol of that name, or NULL. */
const ElfW(Sym) *hf_object_symbol(const struct hf_object *object, const char *name);

/* The address of the function or data object of that name; NULL where it is not defined, or only
 * found by calling a resolver (IFUNC). */
void *hf_object_address(const struct hf_object *object, const char *name);

/* The address of the PLT entry that stands for an undefined function in the whole process: programs
 * at a fixed address have such entries. NULL where there is none. */
void *hf_object_plt(const struct hf_object *object, const char *name);

/* The soname that an undefined symbol is wanted from, or NULL where the file does not say. */
const char *hf_object_provider(const struct hf_object *object, size_t symbol_index);

/* The ELF header, which every linker puts where the object's memory begins; NULL where it is not.
 */
const ElfW(Ehdr) *hf_object_header(const struct hf_object *object);

/* Fills in the fields of segments from the program headers. */
void hf_object_segments(struct hf_object *object);

/* How the file asks for the segment that holds an address to be mapped (PF_R, …); 0 for none. */
unsigned hf_object_protection(const struct hf_object *object, uintptr_t address);

/* Whether an address lies in a segment that the file asks to be writable. */
bool hf_object_writable(const struct hf_object *object, uintptr_t address);

#endif
