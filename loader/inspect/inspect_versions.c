/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the symbol versions that a file needs from its libraries, and homefree's version nodes that
 * it defines. Owns no state but the caller's.
 */
#include "loader/inspect/inspect_parts.h"

#include <stdlib.h>
#include <string.h>

#define HOMEFREES "HOMEFREE_"
#define GLIBCS    "GLIBC_"

/* Parses <start><major>.<minor>, or where a third number may follow, <start><major>.<minor>.<rest>.
 * Returns false for any other name. */
static bool read_node(const char *version, const char *start, const char *ends, unsigned numbers[2])
{
    if (strncmp(version, start, strlen(start)) != 0)
        return false;
    const char *at = version + strlen(start);
    for (size_t i = 0; i < 2; i++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 6 ||
            (i == 0 ? at[digits] != '.' : strchr(ends, at[digits]) == NULL))
            return false;
        numbers[i] = (unsigned)strtoul(at, NULL, 10);
        at += digits + 1;
    }
    return true;
}

bool hf_inspect_is_newer(const unsigned one[2], const unsigned other[2])
{
    return one[0] != other[0] ? one[0] > other[0] : one[1] > other[1];
}

static void note_newest(struct hf_inspect_newest *newest, const char *name,
                        const unsigned numbers[2])
{
    if (newest->name != NULL && !hf_inspect_is_newer(numbers, newest->numbers))
        return;
    newest->name = name;
    memcpy(newest->numbers, numbers, sizeof newest->numbers);
}

bool hf_inspect_version(const char *library, const char *version, bool needed, void *context)
{
    struct hf_inspect_versions *versions = context;
    struct hf_inspection *inspection = versions->inspection;
    unsigned numbers[2];
    const bool node = read_node(version, HOMEFREES, "", numbers);
    if (!needed) {
        inspection->homefree_itself |= node;
        return true;
    }
    /* The linker records a version only if the file imports a symbol with it, so the library is
     * used. */
    for (size_t i = 0; i < inspection->libraries_count; i++)
        if (inspection->libraries[i].state != HF_LIBRARY_USED &&
            strncmp(inspection->libraries[i].name, library, HF_INSPECTION_STRING_MAX) == 0)
            inspection->libraries[i].state = HF_LIBRARY_USED;
    if (node)
        note_newest(&versions->homefree, version, numbers);
    else if (read_node(version, GLIBCS, ".", numbers)) /* GLIBC_2.2.5 */
        note_newest(&versions->glibc, version + sizeof GLIBCS - 1, numbers);
    return true;
}
