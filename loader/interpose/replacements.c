/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of originals. An entry is written under the loader's lock before its replacement's
 * address is published in a slot; replacements read it without a lock. Adopted objects call
 * replacements at any stage and from any thread.
 *
 * Compiled with -fexceptions: an original operator new may throw through a replacement.
 */
#include "loader/interpose/replacements.h"

#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "loader/interpose/routed.h"
#include "shim/calls.h"

#include <string.h>

enum {
#define HF_SHIM(name, result, parameters, arguments, call) REPLACEMENT_##name,
#define HF_SHIM_VARIADIC(name, parameters, last, call)     REPLACEMENT_##name,
#define HF_NEW(symbol, nothrow, aligned)                   REPLACEMENT_##symbol,
#include "shim/functions.def"
    REPLACEMENT_COUNT
};
_Static_assert(REPLACEMENT_COUNT <= HF_FUNCTION_NAMES_MAX, "got_slots.h has room for every name");

/* ---- replacements without an original ---- */

#define HF_SHIM(name, result, parameters, arguments, call) \
    static result replacement_##name parameters            \
    {                                                      \
        return call;                                       \
    }
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    static int replacement_##name parameters VARIADIC_BODY(last, call)
#include "shim/functions.def"

/* ---- replacements with an original ---- */

_Static_assert(HF_REPLACEMENT_ORIGINALS == 8, "HF_EACH_ORIGINAL makes eight");
_Static_assert(HF_REPLACEMENT_ORIGINALS >= HF_STUBS_PER_FUNCTION, "routing's stubs are originals");

static union {
    struct originals {
#define HF_RESIZES(name, result, parameters, arguments, call) \
    void *resize_##name[HF_REPLACEMENT_ORIGINALS];
#define HF_NEW(symbol, nothrow, aligned) void *new_##symbol[HF_REPLACEMENT_ORIGINALS];
#include "shim/functions.def"
    } originals;
    char pages[HF_SEAL_SIZE(struct originals)];
} table HF_SEALED;

#define HF_RESIZES(name, result, parameters, arguments, call) \
    HF_EACH_ORIGINAL(RESIZE, name, result, parameters, arguments, call)
#define RESIZE(index, name, result, parameters, arguments, call)                      \
    static result resize_##name##_##index parameters                                  \
    {                                                                                 \
        if (ptr == NULL || hf_owned(ptr))                                             \
            return call;                                                              \
        return ((result(*) parameters)table.originals.resize_##name[index])arguments; \
    }
#include "shim/functions.def"

/* The mangled name determines the parameters; a nothrow_t is passed by address. */
#define NEW_PARAMETERS_0_0 (size_t size)
#define NEW_PARAMETERS_1_0 (size_t size, const void *nothrow)
#define NEW_PARAMETERS_0_1 (size_t size, size_t alignment)
#define NEW_PARAMETERS_1_1 (size_t size, size_t alignment, const void *nothrow)
#define NEW_ARGUMENTS_0_0  (size)
#define NEW_ARGUMENTS_1_0  (size, nothrow)
#define NEW_ARGUMENTS_0_1  (size, alignment)
#define NEW_ARGUMENTS_1_1  (size, alignment, nothrow)
#define NEW_CALL_0         hf_malloc(size)
#define NEW_CALL_1         hf_memalign(alignment, size)

#define HF_NEW(symbol, nothrow, aligned) HF_EACH_ORIGINAL(NEW, symbol, nothrow, aligned)
#define NEW(index, symbol, nothrow, aligned)                                                 \
    static void *new_##symbol##_##index NEW_PARAMETERS_##nothrow##_##aligned                 \
    {                                                                                        \
        void *block = NEW_CALL_##aligned;                                                    \
        if (HF_LIKELY(block != NULL))                                                        \
            return block;                                                                    \
        return ((void *(*)NEW_PARAMETERS_##nothrow##_##aligned)                              \
                    table.originals.new_##symbol[index])NEW_ARGUMENTS_##nothrow##_##aligned; \
    }
#include "shim/functions.def"

/* ---- the tables ---- */

static const struct {
    const char *name;
    void *function; /* NULL if an original is needed */
} rows[REPLACEMENT_COUNT] = {
#define HF_SHIM(name, result, parameters, arguments, call) \
    [REPLACEMENT_##name] = {#name, (void *)replacement_##name},
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    [REPLACEMENT_##name] = {#name, (void *)replacement_##name},
#define HF_NEW(symbol, nothrow, aligned) [REPLACEMENT_##symbol] = {#symbol, NULL},
#include "shim/functions.def"
};

#define FUNCTION(index, prefix, name) (void *)prefix##_##name##_##index,

static const struct with_original {
    const char *name;
    void **originals;
    bool is_operator;
    void *functions[HF_REPLACEMENT_ORIGINALS];
} with_originals[] = {
#define HF_RESIZES(name, result, parameters, arguments, call) \
    {#name, table.originals.resize_##name, false, {HF_EACH_ORIGINAL(FUNCTION, resize, name)}},
#define HF_NEW(symbol, nothrow, aligned) \
    {#symbol, table.originals.new_##symbol, true, {HF_EACH_ORIGINAL(FUNCTION, new, symbol)}},
#include "shim/functions.def"
};
enum { WITH_ORIGINALS = sizeof with_originals / sizeof with_originals[0] };

static const struct with_original *row_with_original(const char *name)
{
    for (size_t i = 0; i < WITH_ORIGINALS; i++)
        if (strcmp(with_originals[i].name, name) == 0)
            return &with_originals[i];
    return NULL;
}

static const char *name_of(int function)
{
    return rows[function].name;
}

static int find(const char *name)
{
    for (int i = 0; i < REPLACEMENT_COUNT; i++)
        if (rows[i].name[0] == name[0] && strcmp(rows[i].name, name) == 0)
            return hf_routed_by_name(name) < 0 || row_with_original(name) != NULL ? i : -1;
    return -1;
}

const struct hf_function_names hf_replacement_names = {REPLACEMENT_COUNT, find, name_of, NULL};

bool hf_replacement_is_operator(int function)
{
    return rows[function].function == NULL;
}

bool hf_replacement_wants_original(int function)
{
    return row_with_original(rows[function].name) != NULL;
}

bool hf_replacement_resizes(int function)
{
    return hf_replacement_wants_original(function) && !hf_replacement_is_operator(function);
}

void *hf_replacement_for(int function, void *original)
{
    const struct with_original *row = row_with_original(rows[function].name);
    if (row == NULL)
        return rows[function].function;
    for (size_t i = 0; i < HF_REPLACEMENT_ORIGINALS; i++) {
        struct hf_seal seal;
        if (row->originals[i] == NULL && hf_seal_open(&seal)) {
            row->originals[i] = original;
            hf_seal_close(&seal);
        }
        if (row->originals[i] == original)
            return row->functions[i];
    }
    return NULL;
}

bool hf_replacement_is(const void *address)
{
    for (size_t i = 0; i < REPLACEMENT_COUNT; i++)
        if (rows[i].function != NULL && rows[i].function == address)
            return true;
    for (size_t i = 0; i < WITH_ORIGINALS; i++)
        for (size_t j = 0; j < HF_REPLACEMENT_ORIGINALS; j++)
            if (with_originals[i].functions[j] == address)
                return true;
    return false;
}
