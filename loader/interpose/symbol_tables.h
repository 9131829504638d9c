/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Points symbol table entries of routed functions in libc and the C++ runtime to stubs.
 *
 * The loader fills slots that routing has not seen yet: when it relocates an object, when a lazy
 * slot is called for the first time, when dlsym() is called. All three read the definer's symbol
 * table. With stubs in that table, an object loaded later is routed before its constructors run,
 * whichever way it is loaded, and a thread inside the resolver finds the stub.
 *
 * The table is a private copy of the file's pages and is writable only during the change. It is
 * never writable and executable: a table that shares a page with code is left alone, and pages of a
 * segment with code that hold none are only readable afterwards.
 *
 * Only the stub knows the previous address (hf_stub_original()). Any comparison of an address with
 * a definition must therefore use hf_table_address(). Tables change under the loader's lock;
 * reading needs none.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_SYMBOL_TABLES_H
#define HOMEFREE_LOADER_INTERPOSE_SYMBOL_TABLES_H

#include "alloc/base/dynlink.h"
#include "loader/interpose/stubs.h"

/* Returns the address of the object's own definition of a name: the original if the table entry
 * leads to a stub. NULL where hf_object_address() returns NULL. */
void *hf_table_address(const struct hf_object *object, const char *name);

/* Returns the original of an address that may be one of the function's stubs; else the address. */
void *hf_table_behind(enum hf_routed function, void *address);

/* Points the entries of an object's routed functions to stubs; those of the loader's own functions
 * only if `loader` is set. Called in a routing pass, under the loader's lock, for libc and the C++
 * runtime. Repeating it costs one lookup per name. */
void hf_table_route(const struct hf_object *object, bool loader);

/* One entry, for the report. */
struct hf_table_entry {
    enum hf_routed function;
    void *const *place; /* the table's field that holds the address */
    bool routed;        /* leads to a stub */
    const char *reason; /* why it is not routed */
};
typedef void hf_table_visitor(const struct hf_table_entry *definition, void *context);
void hf_table_visit(struct hf_object *object, bool loader, hf_table_visitor *visit, void *context);

#endif
