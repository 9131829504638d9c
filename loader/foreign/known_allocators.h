/*
 * The known allocators as structures; known_allocators.def is the table. Constant data, and
 * functions without state: anything may call them at any time, from several threads.
 */
#ifndef HOMEFREE_KNOWN_ALLOCATORS_H
#define HOMEFREE_KNOWN_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>

#define HF_ALLOCATOR(id, name) HF_ALLOCATOR_##id,
#define HF_ALLOCATOR_SYMBOL(id, pattern)
#define HF_ALLOCATOR_STRING(id, text)
#define HF_ALLOCATOR_CALLS(id, mark, kind, question, realloc, usable_size)
#define HF_ALLOCATOR_RELEASE(id, mark, form, release)
enum hf_allocator {
#include "loader/foreign/known_allocators.def"
    HF_ALLOCATOR_COUNT
};
#undef HF_ALLOCATOR
#undef HF_ALLOCATOR_SYMBOL
#undef HF_ALLOCATOR_STRING
#undef HF_ALLOCATOR_CALLS
#undef HF_ALLOCATOR_RELEASE

/* "jemalloc", … */
const char *hf_allocator_name(enum hf_allocator allocator);

/* The patterns of symbols, for hf_names_prepare(), and whose each is. */
extern const char *const hf_allocator_patterns[];
extern const enum hf_allocator hf_allocator_pattern_owners[];
extern const size_t hf_allocator_patterns_count;

/* What read-only data holds. */
struct hf_allocator_string {
    enum hf_allocator allocator;
    const char *text;
    size_t length;
};
extern const struct hf_allocator_string hf_allocator_strings[];
extern const size_t hf_allocator_strings_count;
/* Whether the strings of every allocator were found: then they are a list of allocators, such as
 * homefree's own, and none of them lives there. */
bool hf_allocator_strings_all(const bool found[HF_ALLOCATOR_COUNT]);

enum hf_allocator_question {
    HF_ALLOCATOR_QUESTION_TRUE, /* bool f(const void *) */
    HF_ALLOCATOR_QUESTION_ONE,  /* int f(const void *): 1 is yes */
    HF_ALLOCATOR_QUESTION_SIZE, /* size_t f(void *, size_t (*)(void *)): with NULL, 0 is no */
};
enum hf_allocator_form {
    HF_ALLOCATOR_FORM_PLAIN, /* void f(void *) */
    HF_ALLOCATOR_FORM_FLAGS, /* void f(void *, int): with 0 */
};

/* Functions that can be called where `mark` is defined. Names may hold the mark's star: see
 * hf_allocator_function(). NULL where there is none. */
struct hf_allocator_calls {
    const char *mark, *question, *realloc, *usable_size;
    enum hf_allocator allocator;
    enum hf_allocator_question kind;
};
extern const struct hf_allocator_calls hf_allocator_calls[];
extern const size_t hf_allocator_calls_count;

struct hf_allocator_release {
    const char *mark, *name;
    enum hf_allocator allocator;
    enum hf_allocator_form form;
};
extern const struct hf_allocator_release hf_allocator_releases[]; /* the better ones first */
extern const size_t hf_allocator_releases_count;

/*
 * The length of what a pattern's star stands for in `symbol`: 9 for "je_arrow_mallctl" and
 * "*mallctl"; 0 for a pattern without a leading star.
 */
size_t hf_allocator_prefix(const char *pattern, const char *symbol);

/*
 * Writes the function's real name: `name` with its star replaced by the first `length` bytes of
 * `prefix`. False where it does not fit.
 */
bool hf_allocator_function(char *out, size_t capacity, const char *name, const char *prefix,
                           size_t length);

#endif
