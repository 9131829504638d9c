/*
 * Owns the table of routed functions. Constant once hf_routed_start() has run; no lock.
 */
#include "loader/interpose/routed.h"

#include <stdint.h>
#include <string.h>

static const struct row {
    const char *name;
    bool is_operator;
} rows[HF_ROUTED_COUNT] = {
#define ROW(symbol, is_operator) [HF_ROUTED_##symbol] = {#symbol, is_operator},

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

/* Objects have thousands of names, and almost none of them are routed. A bit set, hashed from the
 * first three characters of a name, rejects most of them. Filled by hf_routed_start(). */
static uint64_t prefixes[16];

static unsigned prefix_of(const char *name)
{
    /* Every routed name has at least three characters; names in an object may be empty. */
    if (name[0] == '\0' || name[1] == '\0')
        return 0;
    return ((unsigned char)name[0] * 5U + (unsigned char)name[1] * 67U +
            (unsigned char)name[2] * 257U) %
           (sizeof prefixes * 8);
}

int hf_routed_by_name(const char *name)
{
    unsigned prefix = prefix_of(name);
    if ((prefixes[prefix / 64] >> prefix % 64 & 1) == 0)
        return -1;
    for (int i = 0; i < HF_ROUTED_COUNT; i++)
        if (rows[i].name[0] == name[0] && strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

static const char *name_of(int function)
{
    return rows[function].name;
}

const struct hf_function_names hf_routed_names = {HF_ROUTED_COUNT, hf_routed_by_name, name_of};
_Static_assert(HF_ROUTED_COUNT <= HF_FUNCTION_NAMES_MAX, "got_slots.h has room for every name");

void hf_routed_start(void)
{
    for (int i = 0; i < HF_ROUTED_COUNT; i++) {
        unsigned prefix = prefix_of(rows[i].name);
        prefixes[prefix / 64] |= (uint64_t)1 << prefix % 64;
    }
}
