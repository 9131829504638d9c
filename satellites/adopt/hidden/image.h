/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The image of a shared object: the bytes of its segments, as they will lie in memory, and the
 * addresses in its data that the dynamic linker will relocate.
 *
 * The file is hostile; the constraints of loader/elf/elf_file.h apply. Memory is limited to the
 * size of the file.
 *
 * Owns: the bytes and the tables, until hf_image_close(). Reads the struct hf_elf, which must stay
 * open as long. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_IMAGE_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_IMAGE_H

#include "loader/elf/elf_file.h"
#include "satellites/adopt/hidden/code.h"

struct hf_stretch {
    uint64_t address, size;      /* as in memory: behind `bytes` there are zeros */
    uint64_t offset, bytes_size; /* in the file */
    unsigned char *bytes;        /* malloc'ed */
    bool code, writable;
};

/* A word at `where` that will hold the address `to` in the same object. */
struct hf_pointer {
    uint64_t where, to;
};

/* What the linker makes: procedure linkage tables, whose code jumps through slots, and global
 * offset tables, which are the slots. */
struct hf_linkage {
    uint64_t address, size;
    bool slots;
};
#define HF_LINKAGES_MAX 8

/* A word through which code finds thread-local variables of the object: all of them by the same one
 * (local-dynamic), or one. */
struct hf_thread_slot {
    uint64_t address;
    bool all;
    bool lazy; /* its relocation is among those of the procedure linkage table */
};

struct hf_image {
    struct hf_elf *elf;
    const struct hf_code *code; /* NULL: of a machine that is not known */
    struct hf_linkage linkages[HF_LINKAGES_MAX];
    size_t linkages_count;
    struct hf_stretch *stretches; /* by address */
    size_t stretches_count;
    struct hf_pointer *pointers; /* by `where` */
    size_t pointers_count;
    struct hf_thread_slot *thread_slots; /* by address */
    size_t thread_slots_count;
    uint64_t *endless; /* slots of other objects' functions that never return, ascending */
    size_t endless_count;
    bool exports_thread_local; /* other objects can find a thread-local variable by name */
};

/* What code for a machine (ELF's e_machine) is made of, or NULL. */
const struct hf_code *hf_code_of(uint16_t machine);

/* Reads the image. Result: 0 or a negative errno; -ENOEXEC: damaged, with elf->why; -ENOTSUP: it
 * has relocations of a kind that is not known. hf_image_close() is harmless after failure. */
int hf_image_open(struct hf_image *image, struct hf_elf *elf);
void hf_image_close(struct hf_image *image);

/* The stretch in which an address lies, or NULL. */
const struct hf_stretch *hf_image_stretch(const struct hf_image *image, uint64_t address);

/* The bytes at an address, and how many follow in the file's part of its stretch; NULL if none. */
const unsigned char *hf_image_at(const struct hf_image *image, uint64_t address, uint64_t *size);

/* Whether an address lies in a procedure linkage table, or in a global offset table. */
bool hf_image_is_linkage(const struct hf_image *image, uint64_t address);
bool hf_image_is_slot(const struct hf_image *image, uint64_t address);

/* The slot of thread-local variables at an address, or NULL. */
const struct hf_thread_slot *hf_image_thread_slot(const struct hf_image *image, uint64_t address);

/* Whether code that uses a word finds one thread-local variable of the object by it. */
bool hf_image_is_thread_slot(const struct hf_image *image, uint64_t address);

/* Whether the function that a slot will hold never returns, by its name. */
bool hf_image_never_returns(const struct hf_image *image, uint64_t slot);

/* The index of the first pointer at or behind an address. */
size_t hf_image_pointer(const struct hf_image *image, uint64_t address);

/* What the word at an address will hold, if that is an address in the same object; otherwise 0. */
uint64_t hf_image_slot_value(const struct hf_image *image, uint64_t address);

#endif
