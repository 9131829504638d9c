/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/base.h - what every public header shares: the version, the export macros, and the rules.
 *
 * Every function is documented in the same form. The effect comes first; then come, in this order:
 *
 *   Parameters  each with its direction (in, out, in/out), its unit and its shape
 *   Result      what the function returns
 *   Errors      each error and its cause
 *   Frees       who frees what was passed in or returned
 *   Threads     safe: any thread may call the function at any time, also concurrently
 *   Fork        safe: the child of a multithreaded process may call it after any fork(2)
 *   Signals     safe: a signal handler may call it
 *   Source      where the behaviour is specified, if not here
 *   Since       the release that introduced the function
 *
 * These rules hold for all functions:
 *
 *   - Sizes are in bytes. Alignments are powers of two, in bytes.
 *   - A function that returns int returns 0 or a negative errno. The malloc family keeps malloc's
 *     conventions: NULL and errno.
 *   - No function needs Python or the GIL, unless its comment says so. All work during exit(3) and
 *     after Py_Finalize().
 *   - A struct whose first member is `size` is caller-sized: the caller sets the member to sizeof
 *     the struct it was compiled with, and homefree neither reads nor writes beyond that size.
 *   - Every exported name has the symbol version HOMEFREE_1.0.
 *
 * Heap corruption, such as a double free or a pointer into the region that was never allocated,
 * ends the process with SIGABRT. A message on stderr first names the pointer, its owner and the
 * caller, says what would have happened, and says what to do.
 */
#ifndef HOMEFREE_BASE_H
#define HOMEFREE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_VERSION_MAJOR 1
#define HF_VERSION_MINOR 0
#define HF_VERSION_PATCH 0
#define HF_VERSION       "1.0.0"

#define HF_API    __attribute__((visibility("default")))
#define HF_MALLOC __attribute__((malloc, warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns the version of the loaded library. HF_VERSION is the version of the headers.
 *
 * Result: a static string such as "1.0.0".
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#endif
#endif
