/*
 * What the targets of `homefree exports` check of a version script.
 */
#ifndef HOMEFREE_TESTS_FUZZ_EXPORTED_H
#define HOMEFREE_TESTS_FUZZ_EXPORTED_H

#include "loader/command/exports/version_script.h"

/* Makes the script, and asserts that it exports the symbols of the list and says nothing else. */
void fuzz_check_script(const struct hf_exports *list, const char *node);

#endif
