/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The role of a loaded object in routing, and the definer of a function. Reads the dynamic linker's
 * data; owns nothing, allocates nothing. The caller holds the loader's lock, or the object cannot
 * be unloaded.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_OBJECT_ROLE_H
#define HOMEFREE_LOADER_FOREIGN_OBJECT_ROLE_H

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign.h"

/* Kinds of objects by how routing treats them. */
enum hf_object_role {
    HF_ROLE_ORDINARY,
    HF_ROLE_RUNTIME,   /* libc, the C++ runtime: define the functions, call them through slots */
    HF_ROLE_LINKER,    /* ld.so: calls through its own pointers, out of reach */
    HF_ROLE_HOMEFREE,  /* an instance of libhomefree: must keep calling libc */
    HF_ROLE_SATELLITE, /* of libhomefree (alloc/base/satellite.h), and treated like it */
    HF_ROLE_NOTHING    /* the vdso: no symbols */
};
enum hf_object_role hf_object_role(const struct hf_object *object);

/* Returns the definer of a function. */
struct hf_definer hf_definer_of(const void *function);

/* Returns whether an object precedes libc in the load order of the program's namespace. Such an
 * object was loaded at program start and is never unloaded. */
bool hf_object_is_early(const struct link_map *map);

bool hf_object_is_libc(const struct hf_object *object);
/* Returns whether a DT_SONAME, or the file name in a version requirement, is that of libstdc++ or
 * libc++. */
bool hf_is_cxx_runtime(const char *soname);

#endif
