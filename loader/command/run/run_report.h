/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `homefree run --diagnose` tells the diagnose library: where the report goes, and which files
 * to read. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_RUN_RUN_REPORT_H
#define HOMEFREE_LOADER_COMMAND_RUN_RUN_REPORT_H

#include <stdbool.h>

/* As the user gave it; NULL: not given. All but mode and sample are paths. */
struct hf_run_diagnosis {
    const char *mode, *report, *sites, *suppressions, *sample;
    bool leaks, quiet;
};

/* The report's directory. */
struct hf_run_directory {
    char *path; /* absolute; owned */
    bool made;  /* it was not there before */
};

/*
 * Makes the report's directory with its parents, in the current directory if none is named, and
 * composes the value of HF_DIAGNOSE_VARIABLE, to be freed. Returns HF_EXIT_CLEAN, or HF_EXIT_FAILED
 * after an error message by `who`; a directory that it made is then removed again.
 */
int hf_run_prepare(const char *who, const struct hf_run_diagnosis *diagnosis,
                   struct hf_run_directory *directory, char **value);

/* Frees the path. Also removes the directory, if it was made and nothing is to be run. */
void hf_run_directory_end(struct hf_run_directory *directory);

#endif
