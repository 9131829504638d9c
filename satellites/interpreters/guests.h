/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guests: interpreters that homefree has not made, but concurrent.interpreters, a host, or CPython
 * itself, and of which others hold something. A guest is listed in the registry beside the others,
 * without a group; its maker ends it at any time. Then what was posted to it runs, and what others
 * still hold of it is leaked, because nobody can release it any more.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_GUESTS_H
#define HOMEFREE_SATELLITES_INTERPRETERS_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

/* Lists the interpreter that the calling thread is attached to, if that is `id` and homefree has
 * not made it. Returns whether it is listed now; no exception is left. Runs Python code. */
bool hf_guests_admit(int64_t id);

#endif
