/*
 * Refers to a library that it links, so that the linker keeps it: what follows in that library's
 * loader chain is this object.
 */
#include "opener.h"

const struct opener *opener(void);
const struct opener *linked(void);

__attribute__((visibility("default"))) const struct opener *linked(void)
{
    return opener();
}
