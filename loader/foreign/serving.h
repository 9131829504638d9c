/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the process gets from an object that holds an allocator, and keeping it loaded. Runs in
 * routing passes, under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_SERVING_H
#define HOMEFREE_LOADER_FOREIGN_SERVING_H

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign.h"

/* Returns what the process takes from an object: the definitions that precede libc's. */
enum hf_foreign_serves hf_serving(const struct hf_object *object);

/* Returns whether this library's free() precedes the object's: whole-process mode. */
bool hf_serving_is_displaced(const struct hf_object *object);

/* Keeps an object loaded whose functions may be called from now on. Result: whether it stays. */
bool hf_serving_pin(const struct hf_object *object);

#endif
