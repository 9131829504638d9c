/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads object files as a linker does: the symbols of an ELF file of any machine, class and byte
 * order, found through its section headers. The file may be a file of its own or a member of an
 * archive.
 *
 * The file is opened as a struct hf_elf, and the constraints of elf_file.h on hostile files,
 * memory, threads and results apply. Segments and the dynamic section are not read; of the
 * functions in elf_file.h only hf_elf_close() and hf_elf_read() may be called. The fields e_type,
 * e_machine, e_shoff, e_shentsize, e_shnum and e_ident of elf->header are set, in the byte order of
 * this machine.
 */
#ifndef HOMEFREE_LOADER_ELF_ELF_OBJECT_H
#define HOMEFREE_LOADER_ELF_ELF_OBJECT_H

#include "loader/elf/elf_file.h"

/*
 * Opens the `size` bytes at `offset` of an open regular file. The descriptor is duplicated.
 * hf_elf_close() is required after success and harmless after failure.
 */
int hf_elf_open_object(struct hf_elf *elf, int descriptor, uint64_t offset, uint64_t size);

/*
 * Visits every symbol but the first of the section of that type, SHT_SYMTAB or SHT_DYNSYM; versions
 * are not looked up. Call it once for each opened file. Result: 0; -ENOENT where there is no such
 * section; another negative errno where the file is damaged or cannot be read.
 *
 * An object has at most one symbol table of each type (gABI, section types). A second one counts as
 * damage: many sections over the same bytes would take quadratic time.
 */
int hf_elf_object_symbols(struct hf_elf *elf, uint32_t type, hf_elf_symbol_visitor *visit,
                          void *context);

#endif
