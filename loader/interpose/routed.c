/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of routed functions. Constant once hf_routed_start() has run; no lock.
 */
#include "loader/interpose/routed.h"

#include <stdint.h>
#include <string.h>

/* Names and not their addresses, which each start would have to relocate. FITS: a longer name, or
 * one that leaves no room for its end, does not compile. */
enum { NAME_SIZE = 39 };
#define FITS(symbol) (sizeof(char[sizeof #symbol <= NAME_SIZE ? 1 : -1]) == 1)
static const struct row {
    char name[NAME_SIZE];
    bool is_operator;
} rows[HF_ROUTED_COUNT] = {
#define ROW(symbol, is_operator) [HF_ROUTED_##symbol] = {#symbol, FITS(symbol) && (is_operator)},

#define HF_RELEASES(name, result, parameters, arguments, call) ROW(name, false)
#define HF_RESIZES(name, result, parameters, arguments, call)  ROW(name, false)
#define HF_MEASURES(name, result, parameters, arguments, call) ROW(name, false)
#define HF_DELETE(symbol, ...)                                 ROW(symbol, true)
#define HF_MAPS(name)                                          ROW(name, false)
#define HF_SPACE_FREES(name, stream, memory)                   ROW(name, false)
#define HF_SPACE_GIVES(name, memory, bytes, release)           ROW(name, false)
    ROW(madvise, false) ROW(dlopen, false) ROW(dlmopen, false) ROW(dlsym, false) ROW(dlvsym, false)
#include "shim/functions.def"
};

const char *hf_routed_name(enum hf_routed function)
{
    return rows[function].name;
}

bool hf_routed_is_operator(enum hf_routed function)
{
    return rows[function].is_operator;
}

bool hf_routed_is_cudas(enum hf_routed function)
{
    return function >= HF_ROUTED_cudaFree && function < HF_ROUTED_dlopen;
}

bool hf_routed_is_loader(enum hf_routed function)
{
    return function >= HF_ROUTED_dlopen && function <= HF_ROUTED_dlvsym;
}

bool hf_routed_is_mapping(enum hf_routed function)
{
    return function > HF_ROUTED_dlvsym && function <= HF_ROUTED_madvise;
}

/* Rows by the hash of their names' first four bytes. Filled by hf_routed_start(). */
static struct hf_name_starts starts;
static uint8_t first_row[sizeof starts * 8]; /* a row's number + 1, or 0 */
static uint8_t next_row[HF_ROUTED_COUNT];    /* the same, of the next row with that hash */
_Static_assert(HF_ROUTED_COUNT < UINT8_MAX, "rows are numbered by bytes");

int hf_routed_by_name(const char *name)
{
    /* Every routed name has at least three characters. */
    if (name[0] == '\0' || name[1] == '\0' || name[2] == '\0')
        return -1;
    for (int i = first_row[hf_name_start(name)]; i != 0; i = next_row[i - 1])
        if (strcmp(rows[i - 1].name, name) == 0)
            return i - 1;
    return -1;
}

static const char *name_of(int function)
{
    return rows[function].name;
}

const struct hf_function_names hf_routed_names = {HF_ROUTED_COUNT, hf_routed_by_name, name_of,
                                                  &starts};
_Static_assert(HF_ROUTED_COUNT <= HF_FUNCTION_NAMES_MAX, "got_slots.h has room for every name");

void hf_routed_start(void)
{
    for (int i = HF_ROUTED_COUNT; i-- > 0;) {
        const uint32_t start = hf_name_start(rows[i].name);
        starts.bits[start / 64] |= (uint64_t)1 << start % 64;
        next_row[i] = first_row[start];
        first_row[start] = (uint8_t)(i + 1);
    }
}
