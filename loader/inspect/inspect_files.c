/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the files of an inspection are. Owns nothing.
 */
#include "loader/inspect/inspection.h"

#include "loader/elf/elf_file.h"

#include <string.h>

int hf_inspection_open(struct hf_elf *elf, const char *path,
                       const struct hf_inspection_files *files)
{
    static const char inside[] = HF_INSPECTION_ROOT;
    if (files != NULL && files->open != NULL && strncmp(path, inside, sizeof inside - 1) == 0)
        return files->open(elf, path, files->context);
    if (files == NULL || !files->in_root)
        return hf_elf_open(elf, path);
    return hf_elf_open_in_root(elf, files->root, path);
}
