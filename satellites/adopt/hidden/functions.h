/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions and data objects of a shared object, by address: from its symbols, from those of a
 * separate debug file, and from its unwind table, which also a stripped object has.
 *
 * The files are hostile; see image.h. Sizes are cut so that functions do not overlap.
 *
 * Owns: the tables, until hf_functions_close(). Names belong to the struct hf_elf that they were
 * read from. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_FUNCTIONS_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_FUNCTIONS_H

#include "satellites/adopt/hidden/image.h"

/* One name of a function or object. */
struct hf_named {
    uint64_t address, size;
    const char *name;
    uint8_t type;  /* STT_FUNC, STT_GNU_IFUNC, STT_OBJECT */
    bool exported; /* other objects can call it by name */
    bool merged;   /* compiled together with other sources, as link-time optimisation does */
    bool internal; /* certainly of one source alone (static in C), whose compiler saw all calls */
};

struct hf_function {
    uint64_t address, size;
    const char *name; /* one of its names, or NULL */
    bool exported;
    bool unwound; /* the unwind table says that a function begins here */
    bool gap;     /* code between functions, such as start-up code without symbols */
};

struct hf_functions {
    struct hf_function *functions; /* by address; one for each address */
    size_t count;
    struct hf_named *names; /* of functions, by address: identical code has several */
    size_t names_count;
    struct hf_named *objects; /* by address */
    size_t objects_count;
};

/* Reads the tables. `debug` is the separate debug file, or NULL. Result: 0 or a negative errno. */
int hf_functions_open(struct hf_functions *functions, const struct hf_image *image,
                      struct hf_elf *debug);
void hf_functions_close(struct hf_functions *functions);

/* The function or object in which an address lies, or NULL. */
struct hf_function *hf_function_at(const struct hf_functions *functions, uint64_t address);
const struct hf_named *hf_object_at(const struct hf_functions *functions, uint64_t address);

#endif
