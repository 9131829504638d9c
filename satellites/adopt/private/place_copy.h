/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Places the files of private copies and removes them again.
 *
 * A copy goes beside its original if that directory is writable: $ORIGIN, debug links and
 * everything else that depends on a file's location then keep working. Otherwise it goes into this
 * process's own directory below XDG_RUNTIME_DIR, TMPDIR, /tmp or /var/tmp (privileged processes use
 * only the last two).
 *
 * File names identify the process that made them (PID namespace, PID, start time). Before making a
 * copy in a directory for the first time, a process removes the files that its user's dead
 * processes left there. A lock guards all state.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_PLACE_COPY_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_PLACE_COPY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Places in the order in which they are tried; 0 is beside the original. */
#define HF_COPY_PLACES 5

/*
 * Creates an empty file for a copy of `original` (an absolute path) in one of the places, open for
 * reading and writing, accessible to its user alone. `path` receives its path. Result: its
 * descriptor, or a negative errno: -ENOENT if the place does not exist, -EACCES, -EROFS, … if the
 * directory cannot be written, -EPERM if code cannot be executed from it, -ENOSPC. Any thread;
 * takes a lock.
 */
int hf_copy_create(const char *original, int place, char path[PATH_MAX]);

/* Whether an open directory is one for code: 0; -EACCES if others than its user and root can
 * replace files in it; -EPERM if its file system forbids execution. Any thread. */
int hf_copy_check_directory(int directory);

/* Removes a copy if this process made it (not a child of fork(2) that inherited it), and those of
 * the process's own directories that are then empty. Any thread; takes a lock. Result: 0, also if
 * there is no such file any more, or a negative errno. */
int hf_copy_remove(const char *path, pid_t maker);

#endif
