/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interpreters that CPython is to end without, because code in them never returns. Owns nothing;
 * whoever calls sees to it that no interpreter is made or ended meanwhile.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_STUCK_H
#define HOMEFREE_SATELLITES_INTERPRETERS_STUCK_H

#include "loader/host/cpython.h"

/* Takes an interpreter out of CPython's list; false: it is the main one, or CPython's list was not
 * found. Nothing of it is freed, and its threads end when they next want its GIL while CPython is
 * finalized. It must not be ended any more. */
bool hf_stuck_unlist(const struct hf_cpython_interpreters *py, struct hf_py_interpreter *stuck);

#endif
