/*
 * The name of what lies at an address in a loaded object: from its dynamic symbols, or from the
 * file's, which has the local ones unless it was stripped. For the last lines of a process: needs
 * no lock and no memory.
 */
#ifndef HOMEFREE_SYMBOL_H
#define HOMEFREE_SYMBOL_H

#include "alloc/base/dynlink.h"

struct hf_symbol {
    char name[192];   /* mangled, cut where it is longer */
    uintptr_t offset; /* of the address in it */
    bool covers;      /* the address lies in it; false: it is the nearest before */
};

/* False where no symbol lies before the address. `address` is one in the process. */
bool hf_symbol_find(const struct hf_object *object, uintptr_t address, struct hf_symbol *out);

#endif
