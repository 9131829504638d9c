/*
 * What the suites of the reader share: reading files into memory, and a walk that asks a file for
 * everything that can be asked.
 */
#ifndef TESTS_LOADER_INSPECT_WALK_H
#define TESTS_LOADER_INSPECT_WALK_H

#include "loader/elf/elf_file.h"
#include "loader/inspect/inspect.h"

struct image {
    unsigned char *data; /* exactly `size` bytes, so that a sanitizer sees one too far */
    size_t size;
};

/* Fails the test when the file cannot be read. */
struct image image_read(const char *path);
struct image image_copy(const struct image *image, size_t size); /* the first bytes of it */
void image_free(struct image *image);

/* The defined symbol of that name in the dynamic symbols, or else in .symtab: 0, -ENOENT, or
 * another negative errno. */
int find_symbol(struct hf_elf *elf, const char *name, struct hf_elf_symbol *out);

/* Opens, asks everything, closes. Fails the test when an answer contradicts the interface. Result:
 * that of opening. */
int walk(const struct image *image);

/* Inspects; fails the test when a failure does not say why. Result: that of hf_inspect_elf(). */
int inspect_image(const struct image *image, const char *path);

#endif
