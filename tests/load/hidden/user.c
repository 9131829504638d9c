/*
 * A module that needs the library with an allocator inside by its file's name: the library has no
 * soname. Its copy must be found under that name.
 */
#include "inner.h"

const struct inner *user(void)
{
    return inner();
}
