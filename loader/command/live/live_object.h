/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared objects in a running process: where they lie, in the dynamic linker's order, and their
 * files.
 *
 * A file that is gone, such as one that an upgrade replaced, is put together from the process's
 * memory, if that can be read: symbols and read-only data are the file's, there are no sections,
 * and data has whatever the process stored.
 *
 * Constraint: mappings, files and memory are hostile; live_process.h and elf_file.h say how they
 * are read. Objects, link maps and bytes are bounded.
 *
 * Owns: a struct hf_live_objects, until hf_live_objects_free(); a struct hf_live_elf, until
 * hf_live_elf_close(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_LIVE_LIVE_OBJECT_H
#define HOMEFREE_LOADER_COMMAND_LIVE_LIVE_OBJECT_H

#include "loader/command/live/live_process.h"
#include "loader/elf/elf_file.h"

struct hf_live_object {
    const struct hf_live_mapping *mapping; /* the first one */
    uint64_t base;                         /* address minus base is the address in the file */
    uint64_t start, end;                   /* the addresses that it takes */
    uint64_t dynamic;                      /* address of its dynamic section; 0: none */
    size_t namespace, position;            /* in the dynamic linker's list; private */
    uint64_t link, name; /* addresses of its link map and of the name in there; 0: unknown */
    bool listed;         /* the dynamic linker has it; private */
    bool program;        /* the file that the process executes */
};

struct hf_live_objects {
    struct hf_live_object *items; /* by namespace; in the dynamic linker's order, if known */
    size_t count;
    bool ordered;  /* the dynamic linker's lists were found */
    bool left_out; /* there are more */
};

/* Finds the objects. False: out of memory. */
bool hf_live_objects_find(const struct hf_live_process *process, struct hf_live_objects *out);

void hf_live_objects_free(struct hf_live_objects *objects);

/* The number of the object that takes an address; `count` if none does. */
size_t hf_live_object_at(const struct hf_live_objects *objects, uint64_t address);

/* The contents of an object. */
struct hf_live_elf {
    struct hf_elf elf;
    void *image; /* NULL: a file */
    size_t size;
};

/* Opens an object by its first mapping. Returns 0 or a negative errno with elf.why set. Close it
 * only after success. */
int hf_live_elf_open(const struct hf_live_process *process, const struct hf_live_mapping *mapping,
                     struct hf_live_elf *out);

void hf_live_elf_close(struct hf_live_elf *file);

#endif
