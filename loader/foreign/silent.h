/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Silent allocators: foreign allocators that can be neither asked nor called. Only their names are
 * known.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_SILENT_H
#define HOMEFREE_LOADER_FOREIGN_SILENT_H

#include <link.h>
#include <stdbool.h>

/* Publishes a silent allocator under a reserved number, named after every allocator it may be
 * (`found`, indexed by enum hf_allocator). Result: false, with nothing published, if `found` names
 * none. Any thread, also in a signal handler. */
bool hf_silent_publish(unsigned number, const struct link_map *map, const bool found[]);

#endif
