/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core's table of functions, as a satellite keeps it: sealed, and written once, before anybody
 * has one of the satellite's functions. Each satellite links core_table.c, and gives the pointer
 * its type in a header of its own (…_core.h).
 */
#ifndef HOMEFREE_SATELLITES_CORE_TABLE_H
#define HOMEFREE_SATELLITES_CORE_TABLE_H

#include "alloc/base/seal.h"

union hf_core_table {
    const void *it;
    char pages[HF_SEAL_SIZE(const void *)];
};
extern union hf_core_table hf_core_table;

/* The satellite begins: keeps the core's table, calls start(), unless it is NULL, which may call
 * the core, and seals the tables. False if the system refuses to seal them. */
bool hf_core_begin(const void *core, void (*start)(void));

#endif
