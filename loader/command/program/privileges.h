/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a program gets privileges that its caller does not have, so that the dynamic linker
 * ignores LD_PRELOAD (AT_SECURE, getauxval(3)). No state. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRAM_PRIVILEGES_H
#define HOMEFREE_LOADER_COMMAND_PROGRAM_PRIVILEGES_H

#include <stddef.h>
#include <sys/stat.h>

/*
 * Decides as the kernel's execve(2) does for a program file, which `status` describes: by the IDs
 * and capabilities of this process, the file's mode and capabilities, the mount's `nosuid` and
 * no_new_privs. Returns what makes the program privileged, as a phrase, or NULL. Security modules
 * may decide otherwise; that cannot be known beforehand.
 */
const char *hf_privileges_of(const char *path, const struct stat *status);

/* The same for the contents of the extended attribute "security.capability", in a process whose
 * real user is not root: whether the kernel would start a program with them as privileged. */
_Bool hf_privileges_by_attribute(const unsigned char *attribute, size_t size);

#endif
