/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-interpreters.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_INTERPRETERS_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_INTERPRETERS_TABLES_H

#include "loader/host/cpython.h"
#include "loader/record/crash_place.h"

#include <homefree/homefree.h>
#include <homefree/interpreters.h>

/* What diagnostics mode wants of the interpreters; otherwise all of it is 0. */
struct hf_interpreters_observer {
    bool names_crashes;                 /* of every group */
    void (*moved)(int64_t interpreter); /* the calling thread works there, by CPython's number; 0:
                                         * in no interpreter that is known */
    void (*ended)(int64_t interpreter);
};

/* The core's functions. */
struct hf_interpreters_core {
#define HF_CORE_GIVES(result, name, parameters, arguments) result(*name) parameters;
#define HF_CORE_DOES(name, parameters, arguments)          void(*name) parameters;
#include "loader/satellites/interpreters_tables.def"
    /* The calling thread, attached to the main one, is about to make one, which counts what it has
     * if there is a limit (0: none), and is attached to it; -1: it could not be made. */
    int (*begins)(uint64_t memory_limit);
    void (*begun)(int64_t interpreter);
    /* It may have so much from now on: -ENOMEM if it has more. */
    int (*limit)(int64_t interpreter, uint64_t most);
    void (*unlimit)(int64_t interpreter); /* the calling thread is attached to it */
    bool (*measure)(struct hf_interpreter_memory *rows, size_t count);
    void (*ended)(int64_t interpreter);              /* nobody is in it any more */
    void (*entered)(int64_t interpreter);            /* the calling thread begins to work in it */
    const struct hf_interpreters_observer *observer; /* filled before a satellite is opened */
};

/* The satellite's: those of homefree/interpreters.h, but for `keep`, `left`, `leaks`, `current`,
 * `limit` and `limit_object`, which are the core's own. Instances of libhomefree offer each other
 * the same table, complete: append only. */
struct hf_interpreters_functions {
#define HF_FUNCTION(result, member, name, parameters) result(*member) parameters;
#include "loader/satellites/interpreters_tables.def"
};

#endif
