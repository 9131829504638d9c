/*
 * Foreign allocators that cannot be asked or called: nothing is known of them but who they are.
 */
#ifndef HOMEFREE_SILENT_H
#define HOMEFREE_SILENT_H

#include <link.h>
#include <stdbool.h>

/* Publishes such an allocator under a reserved number, named after all that it may be (`found`, by
 * enum hf_allocator). Result: false, and nothing is published, where `found` names none. Any
 * thread, also in a signal handler. */
bool hf_silent_publish(unsigned number, const struct link_map *map, const bool found[]);

#endif
