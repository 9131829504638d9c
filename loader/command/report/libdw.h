/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam to libdw, elfutils' reader of debug information: the only place that knows its names.
 * libdw is loaded when it is first needed. Without it the command works and knows no lines. Neither
 * its headers nor the library are needed to build.
 *
 * Separate debug files are found where the system keeps them. libdw asks a debuginfod server only
 * if the user has set DEBUGINFOD_URLS.
 *
 * Owns: the handle of the library, until the process ends. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_LIBDW_H
#define HOMEFREE_LOADER_COMMAND_REPORT_LIBDW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An ELF file with whatever debug information there is. */
struct hf_libdw_file {
    void *session, *module;
    uint64_t bias;
};

/*
 * Opens the file of a descriptor, which is duplicated, or, if that is negative, the file that a
 * debuginfod server has for a build id. Returns false where libdw is not there, or cannot read the
 * file. Close it only after success.
 */
bool hf_libdw_open(struct hf_libdw_file *file, const char *path, int descriptor,
                   const uint8_t *build, size_t build_size);

void hf_libdw_close(struct hf_libdw_file *file);

/* The function and the line at an address in the file; NULL and 0: unknown. The strings are valid
 * until the file is closed. */
struct hf_libdw_names {
    const char *symbol, *source;
    int line;
};
struct hf_libdw_names hf_libdw_look_up(const struct hf_libdw_file *file, uint64_t address);

#endif
