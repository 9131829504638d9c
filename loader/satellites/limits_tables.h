/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-limits.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_LIMITS_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_LIMITS_TABLES_H

#include "alloc/heap/front_end.h"
#include "loader/host/cpython.h"
#include "loader/interpose/limit_slots.h"

#include <homefree/limit.h>
#include <homefree/trim.h>

/* The core's. */
struct hf_limits_core {
    struct hf_limited *limited; /* by number */
    int (*open)(unsigned limit, uint64_t most, bool lenient);
    int (*close)(unsigned limit);
    void *(*malloc_limited)(unsigned limit, size_t size,
                            void *(*slow)(unsigned limit, size_t size));
    bool (*claim)(unsigned limit, const void *ptr, bool force);
    void *(*refuse)(unsigned limit);
    uint64_t (*growth)(unsigned limit, const void *ptr, size_t size);
    void *(*malloc)(size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(const void *ptr);
    void (*new_failed)(const void *caller);
    int (*trim)(hf_trim_visitor *visit, void *context);
    int (*slots_all)(struct hf_limit_slots *slots, void (*first)(struct hf_limit_slots *slots),
                     bool (*last)(struct hf_limit_slots *slots));
    void (*slots_from)(struct hf_limit_slots *slots, const struct link_map *map);
    bool (*slots_offer)(void (*loaded)(const struct link_map *map));
    const struct hf_cpython *(*cpython_find)(const void *anchor);
    bool (*cpython_attached)(const struct hf_cpython *cpython);
};

/* The satellite's: those of homefree/limit.h, and hf_limit_number(). Instances of libhomefree offer
 * each other the same table: append only. */
struct hf_limits_functions {
    int (*begin)(struct hf_limit **out, const char *path, uint64_t bytes,
                 const struct hf_limit_options *options);
    int (*add)(struct hf_limit *limit, const char *path);
    int (*set)(struct hf_limit *limit, uint64_t bytes);
    int (*read)(const struct hf_limit *limit, struct hf_limit_state *out);
    int (*each)(hf_limit_visitor *visit, void *context);
    int (*end)(struct hf_limit *limit);
    int (*number)(const struct hf_limit *limit);
};

#endif
