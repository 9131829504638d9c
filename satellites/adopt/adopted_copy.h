/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adopted copy of one file: found in the cache, or made after the search for ways into the
 * file's allocator. What needs libc alone, for libhomefree and the command.
 *
 * Owns: the files that struct hf_adoption has open, until hf_adoption_close(). Uses malloc. Any
 * thread, each with an adoption of its own.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_ADOPTED_COPY_H
#define HOMEFREE_SATELLITES_ADOPT_ADOPTED_COPY_H

#include "loader/elf/elf_file.h"
#include "satellites/adopt/adopted_cache.h"

struct hf_adoption {
    const char *original; /* absolute path */
    const char *library;  /* libhomefree's soname */
    struct hf_elf elf, debug;
    bool has_debug;
    uint64_t content[2], key[2]; /* of the file by whatever path, and of its copy */
    int refused; /* with which error, by an earlier look at the file; `why` says the reason */
    char why[HF_ADOPTED_WHY_MAX]; /* after a failure: the reason, or empty */
};

/* Opens a file. Result: 0 or a negative errno; after a failure, nothing is to be closed. */
int hf_adoption_open(struct hf_adoption *adoption, const char *original, const char *library);
void hf_adoption_close(struct hf_adoption *adoption);

/* Whether it has an allocator inside: 1, 0 or a negative errno. `copy` receives the path of a copy
 * that is there already, or an empty string. */
int hf_adoption_look(struct hf_adoption *adoption, char copy[PATH_MAX]);

/* Where a copy goes that the cache cannot have: as hf_copy_place() (private_copy.h). */
typedef int hf_adoption_elsewhere(const char *original, char path[PATH_MAX],
                                  int (*fill)(int from, int to, void *context), void *context);

/* Makes the copy; without `elsewhere`, only in the cache. Result: 0 or a negative errno. */
int hf_adoption_make(struct hf_adoption *adoption, char path[PATH_MAX],
                     hf_adoption_elsewhere *elsewhere);

#endif
