#include "image.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image image_read(const char *path)
{
    struct image image = {NULL, 0};
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    image.size = (size_t)ftell(file);
    rewind(file);
    image.data = malloc(image.size);
    ck_assert_ptr_nonnull(image.data);
    ck_assert_uint_eq(fread(image.data, 1, image.size, file), image.size);
    fclose(file);
    return image;
}

struct image image_copy(const struct image *image, size_t size)
{
    struct image copy = {malloc(size == 0 ? 1 : size), size};
    ck_assert_ptr_nonnull(copy.data);
    if (size != 0)
        memcpy(copy.data, image->data, size);
    return copy;
}

void image_free(struct image *image)
{
    free(image->data);
    image->data = NULL;
}
