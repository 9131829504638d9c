/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a routing pass does with an interpreter that it meets (foreign/hosted_mappings.h), before
 * anybody installs anything. Under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_HOST_HOST_H
#define HOMEFREE_LOADER_HOST_HOST_H

#include "loader/foreign/hosted_mappings.h"

/*
 * Result: whether the region serves mappings of the interpreter's mimalloc, as `out` says. In
 * whole-process mode, the arenas of an interpreter that has not started are recorded from its first
 * on, so that pymalloc's blocks go home although the domains are CPython's own.
 */
bool hf_host_meet(const struct hf_object *interpreter, struct hf_mapping_host *out);

#endif
