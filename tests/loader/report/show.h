/*
 * What the tests of damaged reports share: everything that `homefree report` does with a file.
 */
#ifndef TESTS_LOADER_REPORT_SHOW_H
#define TESTS_LOADER_REPORT_SHOW_H

#include "loader/command/report/json_reader.h"

#include <stdbool.h>

/* Gets the JSON document, whose tree `keep` may hold. */
typedef void show_document(struct hf_keep *keep, const char *text, size_t length);

/* Reads the file and shows it in all ways. Fails the test if the document cannot be read again, or
 * if the text holds a control character. `open_object` and `files` as in struct hf_merged;
 * `document` may be NULL. Returns whether the file was read. */
bool show_report(const char *name, int (*open_object)(const void *files, const char *path),
                 const void *files, show_document *document);

#endif
