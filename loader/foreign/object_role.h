/*
 * What a loaded object is to routing, and who defines a function. Reads what the dynamic linker
 * shows; owns nothing, allocates nothing. The loader's lock is held, or the object cannot be
 * unloaded.
 */
#ifndef HOMEFREE_OBJECT_ROLE_H
#define HOMEFREE_OBJECT_ROLE_H

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign.h"

/* What kinds of objects need a treatment of their own. */
enum hf_object_role {
    HF_ROLE_ORDINARY,
    HF_ROLE_RUNTIME,  /* libc, libstdc++: define the functions, and call them through slots */
    HF_ROLE_LINKER,   /* ld.so: calls through pointers of its own; out of reach */
    HF_ROLE_HOMEFREE, /* a copy of libhomefree: must go on calling libc */
    HF_ROLE_NOTHING   /* the vdso; no symbols */
};
enum hf_object_role hf_object_role(const struct hf_object *object);

/* Who defines a function that slots go to. */
struct hf_definer hf_definer_of(const void *function);

/* Whether an object of the program's namespace lies in front of libc in the order of loading: it
 * was there when the program started, and is never unloaded. */
bool hf_object_is_early(const struct link_map *map);

bool hf_object_is_libc(const struct hf_object *object);
/* Whether a DT_SONAME, or the name in a version's need, is that of libstdc++ or libc++. */
bool hf_is_cxx_runtime(const char *soname);

#endif
