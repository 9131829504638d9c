/*
 * Where the files of private copies live, and that they go again.
 *
 * Beside the original where its folder can be written: $ORIGIN, debug links and whatever else is
 * found from a file's place then works as it did. Otherwise in a folder of this process's own below
 * XDG_RUNTIME_DIR, TMPDIR, /tmp or /var/tmp (a privileged process knows the last two alone).
 *
 * A file's name holds the process (namespace of process numbers, number, start time) that made it.
 * Whoever makes a copy in a folder first removes there what its own user's dead processes left.
 */
#ifndef HOMEFREE_PLACE_COPY_H
#define HOMEFREE_PLACE_COPY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Places in the order in which they are tried; 0 is beside the original. */
#define HF_COPY_PLACES 5

/*
 * Makes an empty file for a copy of `original` (an absolute path) in one of the places, open for
 * reading and writing, for its user alone. `path` gets its path.
 * Result: its descriptor; -ENOENT when there is no such place, or a negative errno: the folder
 * cannot be written (-EACCES, -EROFS, …), -EPERM: code cannot be executed from it, -ENOSPC.
 * Any thread; takes a lock.
 */
int hf_copy_create(const char *original, int place, char path[PATH_MAX]);

/* Removes a copy, if this very process made it (not a child of fork(2) that inherited it), and the
 * process's own folders that are empty then. Any thread; takes a lock. */
void hf_copy_remove(const char *path, pid_t maker);

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_copy_start(void);

#endif
