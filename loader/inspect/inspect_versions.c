/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the symbol versions that a file needs from its libraries, and homefree's version nodes that
 * it defines. Owns no state but the caller's.
 */
#include "loader/inspect/inspect_parts.h"

#include <stdlib.h>
#include <string.h>

/* Parses HOMEFREE_<major>.<minor>. Returns false for any other name. */
static bool read_node(const char *version, unsigned numbers[2])
{
    static const char start[] = "HOMEFREE_";
    if (strncmp(version, start, sizeof start - 1) != 0)
        return false;
    const char *at = version + sizeof start - 1;
    for (size_t i = 0; i < 2; i++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 6 || at[digits] != (i == 0 ? '.' : '\0'))
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

bool hf_inspect_version(const char *library, const char *version, bool needed, void *context)
{
    struct hf_inspect_versions *versions = context;
    struct hf_inspection *inspection = versions->inspection;
    unsigned numbers[2];
    const bool node = read_node(version, numbers);
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
    if (node && (versions->newest == NULL || hf_inspect_is_newer(numbers, versions->numbers))) {
        versions->newest = version;
        memcpy(versions->numbers, numbers, sizeof numbers);
    }
    return true;
}
