/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `homefree trim --pid` and a process write to each other: the command stores the number of
 * its request in the process's memory, for which the kernel asks what it asks of a debugger; the
 * thread of the satellite libhomefree-background.so, which looks once a second, trims, stores the
 * rows, and then the number of what it has answered. Two commands at once overwrite each other's
 * number; who does not find its own answered asks again.
 *
 * Both sides are hostile to each other: the process takes nothing from the command but a number,
 * the command bounds and checks all that it reads.
 *
 * The core owns the struct; the satellite's thread writes all of it but `asked`.
 */
#ifndef HOMEFREE_LOADER_RECORD_LIVE_TRIM_H
#define HOMEFREE_LOADER_RECORD_LIVE_TRIM_H

#include <stdint.h>

enum { HF_LIVE_TRIM_ROWS = 64, HF_LIVE_TRIM_NAME = 64, HF_LIVE_TRIM_PATH = 256 };

struct hf_live_trim_row {
    char allocator[HF_LIVE_TRIM_NAME];
    char how[HF_LIVE_TRIM_NAME];    /* "": none is known */
    char object[HF_LIVE_TRIM_PATH]; /* "": the process's; a path's end if it is longer */
    uint64_t before, after;         /* bytes; 0: /proc does not tell */
};

struct hf_live_trim {
    uint64_t asked;    /* the last request's number; 0: none */
    uint64_t answered; /* the last one that was answered */
    uint32_t listens;  /* 1: a thread looks at this */
    int32_t error;     /* hf_trim()'s result */
    uint32_t count;    /* rows that follow */
    uint32_t left_out; /* rows that had no place */
    struct hf_live_trim_row rows[HF_LIVE_TRIM_ROWS];
};

#endif
