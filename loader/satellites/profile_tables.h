/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-profile.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_PROFILE_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_PROFILE_TABLES_H

#include "alloc/heap/front_end.h"
#include "loader/host/cpython.h"

#include <homefree/profile.h>

/* The core's functions. */
struct hf_profile_core {
    int (*sample)(const struct hf_sample_functions *functions, size_t mean);
    const struct hf_cpython *(*cpython_find)(const void *anchor);
    bool (*cpython_attached)(const struct hf_cpython *cpython);
};

/* The satellite's: those of homefree/profile.h. Instances of libhomefree offer each other the same
 * table, but for the book: append only. */
struct hf_profile_functions {
    int (*begin)(size_t mean_bytes);
    int (*end)(void);
    int (*each)(hf_profile_visitor *visit, void *context);
    struct hf_book *const *book; /* the word that has the book's address */
};

#endif
