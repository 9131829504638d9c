/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record of a process (loader/record/process_record.h): doctor_record.c reads and checks it,
 * doctor_facts.c answers queries on it, and doctor_findings.c derives the findings.
 *
 * Constraint: a record is hostile input. Another process wrote it, and may have crashed while doing
 * so. Every number, index and field is checked, sizes are bounded, and a record without its last
 * line is rejected.
 *
 * Owns: everything that a struct hf_record points to, until hf_record_free(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_RECORD_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_RECORD_H

#include "loader/command/keep.h"
#include "loader/command/live/live_process.h"
#include "loader/inspect/inspect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HF_RECORD_TARGETS = 4, /* objects that one object's calls may go to and that are recorded */
    HF_RECORD_FOREIGN = 4  /* foreign allocators in one object */
};

enum hf_record_role {
    HF_RECORD_ORDINARY,
    HF_RECORD_RUNTIME,
    HF_RECORD_LINKER,
    HF_RECORD_HOMEFREE,
    HF_RECORD_SATELLITE
};

/* A set of objects, by index. */
struct hf_record_set {
    size_t count, indices[HF_RECORD_TARGETS];
};

struct hf_record_object {
    uint64_t namespace;
    enum hf_record_role role;
    const char *path, *soname; /* soname may be NULL */
    bool maps, static_tls, heap, program, cpython, linked;
    bool defines_malloc, defines_free;
    /* The objects that its calls go to: malloc and related functions, free and related functions,
     * operator new, operator delete. */
    struct hf_record_set allocates, frees, news, deletes;
    size_t users; /* other objects whose malloc or free it is; hf_record_find() counts them */
    size_t routed, refused;
    const char *reach; /* why routing cannot reach it, or NULL */
    /* The allocators in its file, if that was read. */
    bool inspected;
    size_t allocators_count;
    struct {
        enum hf_allocator allocator;
        bool exported;
    } allocators[4];
    /* The foreign allocators in it that homefree knows. */
    size_t foreign_count;
    struct hf_record_foreign {
        const char *allocator;
        uint64_t bytes; /* bytes that it has mapped, as far as known */
        bool home; /* homefree can free its pointers; false: none of its functions can be called */
        uint64_t leaked; /* blocks that were leaked, because homefree could not free them */
    } foreign[HF_RECORD_FOREIGN];
};

struct hf_record_refusal {
    size_t object;
    const char *function, *kind, *reason;
};
/* Where a signal interrupted the process. SIZE_MAX and NULL: unknown. */
struct hf_record_crash {
    bool known, freeing; /* freeing: the object's allocator was to free another's block */
    size_t object, caller;
    const char *function;
};
struct hf_record_copy {
    size_t object;
    const char *variable, *function;
};

struct hf_record {
    const char *why; /* after a failure: one line; static */
    char *text;      /* the record; strings point into it */
    uint64_t pid;
    const char *moment; /* "exit", "start", "signal", "asked", "live" */
    int signal;
    const char *program, *preload;
    enum hf_record_routing {
        HF_RECORD_OFF,
        HF_RECORD_ON,
        HF_RECORD_NO_HOMEFREE, /* nothing in the process routes */
        HF_RECORD_UNKNOWN
    } routing;
    const char *unseen; /* "live": why a part is missing, or NULL */
    /* "live": the process, whose files are read; NULL: files are read by their paths. */
    const struct hf_live_process *process;
    bool heap_known;
    uint64_t reserved, used, allocated, resident;
    struct hf_record_object *objects;
    size_t objects_count;
    struct hf_record_refusal *refusals;
    size_t refusals_count;
    struct hf_record_crash crash;
    struct hf_record_copy *copies;
    size_t copies_count;
    /* Their rules are those of hf_doctor_rules. */
    struct hf_inspection_finding **findings;
    size_t findings_count;
    void *findings_tree; /* private: the same by rule and message (tsearch(3)) */
    struct hf_keep keep; /* private: memory for all of this but `text` */
};

/* The rules of loader/record/process_record.def. */
#define HF_DOCTOR_RULE(id, name, severity, explanation, remedy) HF_DOCTOR_RULE_##id,
enum hf_doctor_rule {
#include "loader/record/process_record.def"
    HF_DOCTOR_RULE_COUNT
};
#undef HF_DOCTOR_RULE
extern const struct hf_rule_text hf_doctor_rules[HF_DOCTOR_RULE_COUNT];

/* Reads a record from an open file. Returns 0; -ENOEXEC if it is not a record or is damaged;
 * -ENOMEM; or an error of read(2). `why` is set after every failure. hf_record_free() is harmless
 * then. */
int hf_record_read(int descriptor, struct hf_record *out);

/* How the process ended; zero if unknown. */
struct hf_record_end {
    int signal, status;
};

/* Inspects the files of objects that may contain an allocator and applies the rules. */
void hf_record_find(struct hf_record *record, struct hf_record_end end);

void hf_record_free(struct hf_record *record);

/* The allocators inside an object, one after the other; NULL: there are no more. First those that
 * homefree knows, to which `foreign` points; then those that only the file tells, with NULL there.
 */
const char *hf_record_inside(const struct hf_record_object *object, size_t index,
                             const struct hf_record_foreign **foreign);

/* The name of the allocator in the object ("libc", "jemalloc", "homefree"), or NULL. */
const char *hf_record_allocator(const struct hf_record_object *object);

/* Whether homefree can free the pointers of every foreign allocator in the object, and there is
 * one. */
bool hf_record_home(const struct hf_record_object *object);

bool hf_record_has(const struct hf_record_set *set, size_t index);

/* Whether its soname begins with `start`; false if it has none. */
bool hf_record_soname_is(const struct hf_record_object *object, const char *start);
bool hf_record_is_libc(const struct hf_record_object *object);

/* "SIGSEGV", ...; "a signal" for numbers without a name. */
const char *hf_record_signal(int number);

#endif
