/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading HOMEFREE_CONF into the options (options.h). No state of its own.
 */
#ifndef HOMEFREE_ALLOC_BASE_OPTIONS_PARSE_H
#define HOMEFREE_ALLOC_BASE_OPTIONS_PARSE_H

#include "alloc/base/options.h"

/*
 * Reads HOMEFREE_CONF into hf_options. An invalid key or value is ignored with a one-line warning
 * on stderr that names it. A privileged process (AT_SECURE) ignores the variable. Called once,
 * before other threads can see the heap.
 */
void hf_options_read(void);

/* Parses a given string; for hf_options_read() and the tests. */
void hf_options_parse(const char *configuration, struct hf_options *out);

#endif
