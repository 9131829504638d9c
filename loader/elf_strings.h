/*
 * Known allocators by the strings that they carry even when they are stripped.
 */
#ifndef HOMEFREE_ELF_STRINGS_H
#define HOMEFREE_ELF_STRINGS_H

#include "allocators.h"
#include "elf_file.h"

/*
 * Looks for the strings of the known allocators in the read-only data of the file. found[a] is set
 * to the string of allocator `a`; allocators whose entry is set already are not looked for. Reads
 * each byte of the file at most once, and `limit` bytes at most: first the sections where linkers
 * put strings, at whose beginning they merge them.
 * Result: 0 or a negative errno. As for the reader of files: maps its memory, takes no lock.
 */
int hf_elf_scan(struct hf_elf *elf, const char *found[HF_ALLOCATOR_COUNT], uint64_t limit);

#endif
