/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of C++ functions as their authors wrote them. The C++ runtime, which knows how, is loaded
 * when it is first needed; without it names stay as they are.
 *
 * Owns: the handle of the library, until the process ends. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_DEMANGLE_H
#define HOMEFREE_LOADER_COMMAND_REPORT_DEMANGLE_H

/* The readable form of a mangled name, for the caller to free; NULL if there is none. */
char *hf_demangle(const char *name);

#endif
