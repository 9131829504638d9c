/*
 * HOMEFREE_CONF: a comma-separated list of key:value, read once while the heap starts.
 */
#ifndef HOMEFREE_OPTIONS_H
#define HOMEFREE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct hf_options {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) uint64_t name;
#include "alloc/base/options.def"
#undef HF_OPTION
};

/* The values of static_free. */
enum { HF_STATIC_FREE_FATAL, HF_STATIC_FREE_IGNORE };

/* Free stretches of pages from this size on go back to the system at once, in bytes. jemalloc's own
 * 8 MiB would do that to an array of a million doubles at every operation on it. */
#define HF_OVERSIZE ((size_t)256 << 20)

/* The options in force: the defaults until hf_options_read() has run. */
extern struct hf_options hf_options;

/*
 * Reads the variable into hf_options. A key or value that is wrong is left out, with one line on
 * stderr that names it. A privileged process (AT_SECURE) ignores the variable. Called once, before
 * other threads can see the heap.
 */
void hf_options_read(void);

/* The same for a given string; for hf_options_read() and the tests. */
void hf_options_parse(const char *configuration, struct hf_options *out);

/* Writes jemalloc's configuration string for these options; size is the buffer's size in bytes. */
void hf_options_for_jemalloc(const struct hf_options *options, char *buffer, size_t size);

/* One row of the table, for help and manual pages. NULL past the end. */
struct hf_option_row {
    const char *name, *type, *unit, *help;
    uint64_t preset, minimum, maximum;
};
const struct hf_option_row *hf_option_row(size_t index);
/* A row's default, as HOMEFREE_CONF would say it: "16T", "on". */
void hf_option_preset(const struct hf_option_row *row, char *out, size_t size);

#endif
