/* Files in memory, for suites that change bytes of them. */
#ifndef HOMEFREE_TESTS_SUPPORT_IMAGE_H
#define HOMEFREE_TESTS_SUPPORT_IMAGE_H

#include <stddef.h>

struct image {
    unsigned char *data; /* exactly `size` bytes, so that a sanitizer notices a read past the end */
    size_t size;
};

/* Reads a file; fails the test if that is impossible. */
struct image image_read(const char *path);
struct image image_copy(const struct image *image, size_t size); /* copies the first `size` bytes */
void image_free(struct image *image);

#endif
