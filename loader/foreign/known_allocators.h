/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The known allocators as structures, generated from the table in known_allocators.def. Constant
 * data and functions without state: callable at any time, from any thread.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_KNOWN_ALLOCATORS_H
#define HOMEFREE_LOADER_FOREIGN_KNOWN_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>

#define HF_ALLOCATOR(id, name) HF_ALLOCATOR_##id,
#define HF_ALLOCATOR_SYMBOL(id, pattern)
#define HF_ALLOCATOR_STRING(id, text)
#define HF_ALLOCATOR_CALLS(id, marker, kind, question, realloc, usable_size)
#define HF_ALLOCATOR_RELEASE(id, marker, form, release)
#define HF_ALLOCATOR_DELETE(id, marker, form, name)
#define HF_ALLOCATOR_TRIM(id, marker, form, name)
enum hf_allocator {
#include "loader/foreign/known_allocators.def"
    HF_ALLOCATOR_COUNT
};
#undef HF_ALLOCATOR
#undef HF_ALLOCATOR_SYMBOL
#undef HF_ALLOCATOR_STRING
#undef HF_ALLOCATOR_CALLS
#undef HF_ALLOCATOR_RELEASE
#undef HF_ALLOCATOR_DELETE
#undef HF_ALLOCATOR_TRIM

/* "jemalloc", …; and the allocator of a name, HF_ALLOCATOR_COUNT if none has it. */
const char *hf_allocator_name(enum hf_allocator allocator);
enum hf_allocator hf_allocator_named(const char *name);

/* The symbol patterns, for hf_names_prepare(), and the allocator of each. */
extern const char *const hf_allocator_patterns[];
extern const enum hf_allocator hf_allocator_pattern_owners[];
extern const size_t hf_allocator_patterns_count;

/* A string in an allocator's read-only data. */
struct hf_allocator_string {
    enum hf_allocator allocator;
    const char *text;
    size_t length;
};
extern const struct hf_allocator_string hf_allocator_strings[];
extern const size_t hf_allocator_strings_count;
/* Returns whether the strings of every allocator were found. The file then contains a list of
 * allocators, such as homefree's own, and none of the allocators. */
bool hf_allocator_strings_all(const bool found[HF_ALLOCATOR_COUNT]);

enum hf_allocator_question {
    HF_ALLOCATOR_QUESTION_TRUE, /* bool f(const void *) */
    HF_ALLOCATOR_QUESTION_ONE,  /* int f(const void *): 1 is yes */
};
enum hf_allocator_form {
    HF_ALLOCATOR_FORM_PLAIN, /* void f(void *) */
    HF_ALLOCATOR_FORM_FLAGS, /* void f(void *, int): with 0 */
};

/* The functions that can be called if the symbol `marker` is defined; NULL if there is none. A star
 * in a name stands for the marker's prefix: see hf_allocator_function(). */
struct hf_allocator_calls {
    const char *marker, *question, *realloc, *usable_size;
    enum hf_allocator allocator;
    enum hf_allocator_question kind;
};
extern const struct hf_allocator_calls hf_allocator_calls[];
extern const size_t hf_allocator_calls_count;

/* Functions like HF_ALLOCATOR_RELEASE's, for the forms of operator delete: enum hf_delete_form. */
enum hf_allocator_delete_form {
    HF_ALLOCATOR_DELETE_ONE,
    HF_ALLOCATOR_DELETE_ARRAY,
    HF_ALLOCATOR_DELETE_ALIGNED,
    HF_ALLOCATOR_DELETE_ARRAY_ALIGNED
};
struct hf_allocator_delete {
    const char *marker, *name;
    enum hf_allocator allocator;
    enum hf_allocator_delete_form form;
};
extern const struct hf_allocator_delete hf_allocator_deletes[];
extern const size_t hf_allocator_deletes_count;

/* The same for giving memory back: enum hf_trim_form. */
enum hf_allocator_trim_form {
    HF_ALLOCATOR_TRIM_NONE,
    HF_ALLOCATOR_TRIM_ALL,
    HF_ALLOCATOR_TRIM_FORCE,
    HF_ALLOCATOR_TRIM_COMMAND,
    HF_ALLOCATOR_TRIM_MALLCTL
};
struct hf_allocator_trim {
    const char *marker, *name;
    enum hf_allocator allocator;
    enum hf_allocator_trim_form form;
};
extern const struct hf_allocator_trim hf_allocator_trims[];
extern const size_t hf_allocator_trims_count;

struct hf_allocator_release {
    const char *marker, *name;
    enum hf_allocator allocator;
    enum hf_allocator_form form;
};
extern const struct hf_allocator_release hf_allocator_releases[]; /* preferred ones first */
extern const size_t hf_allocator_releases_count;

/*
 * Returns the length of the prefix that a pattern's star matches in `symbol`: 9 for
 * "je_arrow_mallctl" and "*mallctl", 0 for a pattern without a leading star.
 */
size_t hf_allocator_prefix(const char *pattern, const char *symbol);

/*
 * Writes a function's real name: `name` with its star replaced by the first `length` bytes of
 * `prefix`. Result: false if it does not fit.
 */
bool hf_allocator_function(char *out, size_t capacity, const char *name, const char *prefix,
                           size_t length);

#endif
