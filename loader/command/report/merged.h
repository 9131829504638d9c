/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What several processes recorded, as one: findings with the same rule, allocator and places are
 * one finding, and pairs of the same objects one pair. Objects are the same if they have the same
 * build id, or no build id and the same path.
 *
 * Owns: everything, in `keep`, until the keep is released. Strings are not NULL unless it says so,
 * and strings and objects that are equal are the same pointer. One thread.
 *
 * Use: hf_merged_begin(), hf_merged_add() for each file, hf_merged_finish().
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_MERGED_H
#define HOMEFREE_LOADER_COMMAND_REPORT_MERGED_H

#include "loader/command/keep.h"
#include "loader/command/report/recorded_file.h"
#include "loader/command/rules.h"

/* The version of the document that --json writes, its member "homefree_report". */
enum { HF_REPORT_DOCUMENT = 1 };

/* The rules as --rules lists them; the first one is HF_FAULT_NOTHING + 1. */
extern const struct hf_rule_table hf_report_rules;

const struct hf_rule_text *hf_report_rule(uint32_t rule); /* enum hf_report_rule */

struct hf_finding_key;
/* Whether a finding's `freed` is a place that read or wrote the block. */
bool hf_finding_is_access(const struct hf_finding_key *key);

struct hf_object {
    const char *key; /* identifies it: the build id or the path */
    const char *path;
    size_t build_size;
    uint8_t build[sizeof((struct hf_report_object *)0)->build];
    struct hf_place **places;
    size_t places_count;
};

/* A place in an object's code, behind a call. Names come later (place_names.h); NULL or 0: unknown.
 */
struct hf_place {
    struct hf_object *object;
    uint64_t offset; /* address in the file */
    const char *symbol, *file;
    unsigned line;
};

struct hf_python_line {
    const char *file, *function; /* NULL: unknown */
    uint32_t line;
};

/* A call stack, innermost first. */
struct hf_trace {
    struct hf_place **frames; /* NULL: code that no object holds */
    size_t native;
    struct hf_python_line *lines;
    size_t python;
};

/* One side of a finding. */
struct hf_side {
    struct hf_place *place; /* NULL: unknown */
    const char *function;   /* NULL: unknown */
    const char *python;     /* "function in file", where that belongs to the place; or NULL */
    uint64_t line;          /* of `python` */
};

struct hf_process {
    struct hf_report_header header;
    const char *path;
    bool truncated;
    uint64_t blocks, bytes;
    struct hf_moment *moments;
    size_t moments_count;
};

/* The live bytes of an object at a moment. */
struct hf_moment {
    uint64_t time; /* nanoseconds since the process started */
    uint64_t bytes;
    const char *path; /* NULL: unknown */
};

struct hf_merged_finding {
    /* What makes findings one. */
    struct hf_finding_key {
        uint64_t rule;                /* enum hf_report_rule; its size leaves no padding */
        const char *allocator;        /* who owns the block; NULL: unknown */
        const char *allocator_object; /* the path of the object that holds it; NULL: unknown */
        struct hf_side allocated, freed, first_freed;
    } key;
    uint64_t count, bytes, asked, said;
    struct hf_trace allocated, freed, first_freed;
    struct hf_process **processes;
    size_t processes_count;
};

struct hf_merged_pair {
    struct hf_pair_key {
        const char *allocated, *freed; /* paths; NULL: unknown */
    } key;
    uint64_t blocks, bytes, threads;
};

/* A suppression that kept findings from being recorded. */
struct hf_merged_suppression {
    struct hf_suppression_key {
        const char *pattern, *why; /* NULL: unknown */
    } key;
    uint64_t count;
};

/* An allocator and the object that holds it. */
struct hf_holder {
    const char *path, *allocator;
};

struct hf_merged {
    struct hf_keep *keep;
    struct hf_merged_finding **findings; /* worst first */
    struct hf_merged_pair **pairs;       /* most blocks first */
    struct hf_process **processes;       /* in the order in which they started */
    struct hf_object **objects;
    struct hf_merged_suppression **suppressed; /* most matches first */
    size_t findings_count, pairs_count, processes_count, objects_count, suppressed_count;
    uint64_t left_out; /* processes of which nothing could be read, or that wrote no file */
    /* Opens the file of an object, as open(2) does; NULL: by its path. For processes that see other
     * files under their paths. */
    int (*open_object)(const void *files, const char *path);
    const void *files;
    /* The rest is private. */
    struct hf_keep_table strings, objects_table, holders, places_table, findings_table, pairs_table,
        suppressed_table;
    struct hf_object **numbered; /* by number, of the file that is added */
};

void hf_merged_begin(struct hf_merged *merged, struct hf_keep *keep);

/* Adds what a file holds. `path`: as the user will see it; NULL only for the sole process. */
void hf_merged_add(struct hf_merged *merged, struct hf_recorded *file, const char *path);

/* Sorts everything. */
void hf_merged_finish(struct hf_merged *merged);

/* The number of findings of each severity, and which rules were broken. */
struct hf_rule_totals hf_merged_totals(const struct hf_merged *merged);

/* The allocator whose function the freeing code called, and the path of the object that holds it;
 * NULL: unknown. */
struct hf_holder hf_merged_freer(const struct hf_merged *merged,
                                 const struct hf_merged_finding *finding);

/* What would have happened without homefree; NULL: unknown. */
const char *hf_merged_without(const struct hf_merged *merged,
                              const struct hf_merged_finding *finding);

/* The last part of a path. */
const char *hf_merged_name(const char *path);

#endif
