/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of the processes that this one descends from. Owns nothing; one thread, at the start.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_ANCESTORS_H
#define HOMEFREE_ALLOC_DIAGNOSE_ANCESTORS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Stores the directory into which the nearest ancestor writes its report, for a process that got
 * this library but not the variable that names the directory. False if there is none, or its path
 * does not fit. Reads /proc; allocates nothing.
 */
bool hf_ancestors_directory(char *directory, size_t capacity);

#endif
