/*
 * What the suites of the reader share: a walk that asks a file for everything that can be asked.
 */
#ifndef HOMEFREE_TESTS_LOADER_INSPECT_WALK_H
#define HOMEFREE_TESTS_LOADER_INSPECT_WALK_H

#include "loader/elf/elf_file.h"
#include "loader/inspect/inspect.h"

#include "image.h"

/* Finds the defined symbol of that name among the dynamic symbols or, failing that, in .symtab.
 * Result: 0, -ENOENT or another negative errno. */
int find_symbol(struct hf_elf *elf, const char *name, struct hf_elf_symbol *out);

/* Opens the file, calls every function and closes it. Fails the test if a result contradicts the
 * interface. Result: that of opening. */
int walk(const struct image *image);

/* Inspects the file; fails the test if a failure gives no reason. Result: that of
 * hf_inspect_elf(). */
int inspect_image(const struct image *image, const char *path);

#endif
