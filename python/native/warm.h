/*
 * The lookup of a request in the cache of homefree.extension (warm.c). Nothing here keeps state or
 * touches Python: any thread may call it, with or without the GIL.
 */
#ifndef HOMEFREE_WARM_H
#define HOMEFREE_WARM_H

#include <stdbool.h>

/* Finds the module that answers a request, in the index of its folder in the cache (root), and
 * writes its path to `module`, which has room for PATH_MAX bytes. path: where compilers are
 * searched for. Returns false if there is none, if stat() shows that a file behind it has changed,
 * or if another user can write to one of the folders. */
bool homefree_find_warm(const char *root, const char *folder, const char *request, const char *path,
                        char *module);

#endif
