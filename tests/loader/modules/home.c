/*
 * See home.h. Linked with a real allocator's archive, whose names are HOME_MALLOC and HOME_MEASURE
 * there, and with a version script that hides them all.
 */
#include "home.h"

void *HOME_MALLOC(size_t size);
size_t HOME_MEASURE(void *ptr);

const struct home *home(void);

__attribute__((visibility("default"))) const struct home *home(void)
{
    static const struct home functions = {HOME_MALLOC, HOME_MEASURE};
    return &functions;
}
