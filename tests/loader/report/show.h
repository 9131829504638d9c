/*
 * What the tests of damaged reports share: everything that `homefree report` does with a file.
 */
#ifndef HOMEFREE_TESTS_LOADER_REPORT_SHOW_H
#define HOMEFREE_TESTS_LOADER_REPORT_SHOW_H

#include <stdbool.h>

/* Reads the file and writes it in all forms. Fails the test if the document is no JSON, or if a
 * folded line holds a control character. `open_object` and `files` as in struct hf_merged. Returns
 * whether the file was read. */
bool show_report(const char *name, int (*open_object)(const void *files, const char *path),
                 const void *files);

#endif
