/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-background.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_BACKGROUND_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_BACKGROUND_TABLES_H

#include "alloc/base/options.h"
#include "alloc/heap/internal.h"
#include "loader/record/live_trim.h"

#include <homefree/pressure.h>

/* The core's. */
struct hf_background_core {
    enum hf_look (*look)(uint64_t quiet);
    int (*trim)(hf_trim_visitor *visit, void *context);
    int (*stats)(struct hf_stats *out);
    const struct hf_options *options;
    struct hf_live_trim *request;
};

/* The satellite's: those of homefree/pressure.h. Instances of libhomefree offer each other the same
 * table: append only. */
struct hf_background_functions {
    int (*start)(void);
    void (*left)(void); /* in a forked child, which has no such thread */
    int (*pressure_begin)(struct hf_pressure_watch **out, unsigned per_cent);
    int (*pressure_wait)(struct hf_pressure_watch *watch, struct hf_pressure *out, int timeout_ms);
    void (*pressure_cancel)(struct hf_pressure_watch *watch);
    void (*pressure_end)(struct hf_pressure_watch *watch);
};

#endif
