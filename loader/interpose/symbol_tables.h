/*
 * The dynamic symbol tables of libc and the C++ runtime: their entries of routed functions lead to
 * stubs.
 *
 * A slot that routing has not seen yet is filled by the loader: when an object is relocated, when a
 * lazy slot is called for the first time, when dlsym() is asked. All three read the definer's
 * symbol table. With the stubs' addresses in it, an object that is loaded later is routed before
 * its constructors run, whoever loads it, and a thread inside the resolver finds the stub.
 *
 * The table is a private copy of the file's pages, made writable for the time of the change; it
 * never is writable and executable: a table that shares its segment with code is left alone.
 *
 * What was there before is known to the stub (hf_stub_original()); nothing else is kept. So
 * whatever compares an address with a definition goes through hf_table_address().
 */
#ifndef HOMEFREE_SYMBOL_TABLES_H
#define HOMEFREE_SYMBOL_TABLES_H

#include "alloc/base/dynlink.h"
#include "loader/interpose/stubs.h"

/* The address of the function that the object itself defines under this name: the original where
 * the table leads to a stub. NULL where hf_object_address() gives NULL. */
void *hf_table_address(const struct hf_object *object, const char *name);

/* The original behind an address that may be the function's stub; otherwise the address. */
void *hf_table_behind(enum hf_routed function, void *address);

/* Points the entries of an object's routed functions to stubs; those of the loader's own functions
 * only where `loader` says so. Called in a routing pass, under the loader's lock, for libc and the
 * C++ runtime. What is done already costs a lookup a name. */
void hf_table_route(const struct hf_object *object, bool loader);

/* One entry, for the report. */
struct hf_table_entry {
    enum hf_routed function;
    void *const *place; /* where the table holds the address */
    bool routed;        /* it leads to a stub */
    const char *reason; /* why not */
};
typedef void hf_table_visitor(const struct hf_table_entry *definition, void *context);
void hf_table_visit(struct hf_object *object, bool loader, hf_table_visitor *visit, void *context);

#endif
