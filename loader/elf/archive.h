/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Archives of ar(1), member by member, in the form that GNU and LLVM write for ELF.
 *
 * Constraint: an archive is hostile. Sizes are checked against the file, each step moves forward by
 * a header at least, and nothing is allocated. Thin archives, which only name their members, are
 * recognized and not read.
 *
 * Owns: nothing; the descriptor is the caller's and its file position is neither used nor moved.
 */
#ifndef HOMEFREE_LOADER_ELF_ARCHIVE_H
#define HOMEFREE_LOADER_ELF_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hf_archive_kind { HF_ARCHIVE_NONE, HF_ARCHIVE_ORDINARY, HF_ARCHIVE_THIN };

/* Identifies a file by its first bytes; eight are enough. */
enum hf_archive_kind hf_archive_kind(const void *bytes, size_t size);

struct hf_archive {
    int descriptor;
    uint64_t size; /* of the file */
    uint64_t next; /* offset of the next member's header; private */
};

/* Begins to read an ordinary archive. */
void hf_archive_begin(struct hf_archive *archive, int descriptor, uint64_t size);

struct hf_archive_member {
    uint64_t offset, size; /* the contents; they lie inside the file */
    bool index;            /* the archive's symbol table or table of long names */
};

/*
 * Reads the next member's header. Returns 1, 0 after the last member, -ENOEXEC if the archive is
 * damaged, or an error of pread(2). The last member may lack the padding to an even offset.
 */
int hf_archive_next(struct hf_archive *archive, struct hf_archive_member *out);

#endif
