/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names the symbol at an address in a loaded object: from the dynamic symbols, or from the file's
 * symbol table, which holds the local ones unless it was stripped.
 *
 * Owns nothing. For a process's last lines: takes no lock, allocates no memory; any thread, any
 * stage.
 */
#ifndef HOMEFREE_ALLOC_BASE_SYMBOL_H
#define HOMEFREE_ALLOC_BASE_SYMBOL_H

#include "alloc/base/dynlink.h"

struct hf_symbol {
    char name[192];   /* mangled; truncated if longer */
    uintptr_t offset; /* of the address from the symbol */
    bool covers;      /* the address lies in the symbol; false: the symbol is the nearest before
                       * it */
};

/* False if no symbol precedes the address. `address` is an address in the process. */
bool hf_symbol_find(const struct hf_object *object, uintptr_t address, struct hf_symbol *out);

#endif
