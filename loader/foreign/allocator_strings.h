/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recognises known allocators by strings that remain in stripped files. Stateless; any thread.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_ALLOCATOR_STRINGS_H
#define HOMEFREE_LOADER_FOREIGN_ALLOCATOR_STRINGS_H

#include "loader/elf/elf_file.h"
#include "loader/foreign/known_allocators.h"

/*
 * Looks for the strings of the known allocators in the file's read-only data and sets found[a] to
 * the string of allocator `a`. Skips allocators whose entry is already set. Reads each byte of the
 * file at most once and at most `limit` bytes, starting with the sections in which linkers merge
 * strings. Result: 0 or a negative errno. Like the ELF reader, maps its memory and takes no lock.
 */
int hf_elf_scan(struct hf_elf *elf, const char *found[HF_ALLOCATOR_COUNT], uint64_t limit);

#endif
