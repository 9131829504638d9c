/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core's table of functions, as a satellite keeps it: sealed, and written once, before anybody
 * has one of the satellite's functions. Each satellite links core_table.c, and gives the pointer
 * its type in a header of its own (…_core.h).
 */
#ifndef HOMEFREE_SATELLITES_CORE_TABLE_H
#define HOMEFREE_SATELLITES_CORE_TABLE_H

#include "alloc/base/satellite.h"
#include "alloc/base/seal.h"

union hf_core_table {
    const void *it;
    char pages[HF_SEAL_SIZE(const void *)];
};
extern union hf_core_table hf_core_table;

/* Defines hf_core(), the core's table, which lies in libhomefree. */
#define HF_CORE_TABLE(type)                 \
    static inline const type *hf_core(void) \
    {                                       \
        return hf_core_table.it;            \
    }

/* Define a function that calls the core's of the same name, for lists of them (…_tables.def). */
#define HF_CALLS_CORE(result, name, parameters, arguments) \
    result name parameters                                 \
    {                                                      \
        return hf_core()->name arguments;                  \
    }
#define HF_CALLS_CORE_VOID(name, parameters, arguments) \
    void name parameters                                \
    {                                                   \
        hf_core()->name arguments;                      \
    }

/* The satellite begins: keeps the core's table, calls start(), unless it is NULL, which may call
 * the core, and seals the tables. False if the system refuses to seal them. */
bool hf_core_begin(const void *core, void (*start)(void));

/* Defines the satellite's entry (alloc/base/satellite.h), which hands out `functions`. */
#define HF_SATELLITE_WITH(name, functions, start)                \
    static const void *begin_satellite(const void *core)         \
    {                                                            \
        return hf_core_begin(core, start) ? &(functions) : NULL; \
    }                                                            \
    HF_SATELLITE(name, begin_satellite)

#endif
