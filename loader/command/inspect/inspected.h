/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `homefree inspect` found, in the order in which it was given: the objects, and the
 * directories, archives and distributions that hold them.
 *
 * Owns: everything in a struct hf_inspected, until hf_inspected_free(). Names come from outside and
 * may contain any byte but zero. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_INSPECT_INSPECTED_H
#define HOMEFREE_LOADER_COMMAND_INSPECT_INSPECTED_H

#include "loader/command/rules.h"

#include <stdint.h>

/* What separates the names of an archive and of its member: "fast.whl!/fast/_core.so". */
#define HF_MEMBER_MARK "!/"

enum hf_container_kind { HF_CONTAINER_DIRECTORY, HF_CONTAINER_ARCHIVE, HF_CONTAINER_PACKAGE };

struct hf_container {
    enum hf_container_kind kind;
    char *name;            /* a path, or the name of a distribution */
    size_t objects, clean; /* shared objects; those without errors or warnings */
    size_t skipped;        /* other ELF files */
    size_t failed;         /* what could not be inspected */
};

struct hf_object {
    char *path;                      /* as shown */
    const char *inner;               /* the member's name, in `path`; NULL: not in an archive */
    char *error;                     /* why it could not be inspected; or NULL */
    size_t container;                /* index in `containers`, or SIZE_MAX */
    struct hf_inspection inspection; /* empty after an error */
};

struct hf_inspected {
    struct hf_object *objects;
    size_t objects_count;
    struct hf_container *containers;
    size_t containers_count;
    struct hf_rule_totals totals; /* of all objects */
    bool fails[HF_RULES_MAX];     /* the rules whose findings make the status HF_EXIT_FINDINGS */
    bool all;                     /* the table also shows clean objects of containers */
};

extern const struct hf_rule_table hf_inspect_table;

/* Adds a container and returns its index. Ends the process if there is no memory. */
size_t hf_inspected_contain(struct hf_inspected *inspected, enum hf_container_kind kind,
                            const char *name);

/* Adds an object whose inspection it takes over, or one that could not be inspected: `error` is
 * then not NULL. `path` is copied; `inner` is where the member's name begins in it, or 0. */
void hf_inspected_add(struct hf_inspected *inspected, size_t container, const char *path,
                      size_t inner, const struct hf_inspection *inspection, const char *error);

void hf_inspected_free(struct hf_inspected *inspected);

/* The findings of an object. */
struct hf_findings hf_inspected_findings(const struct hf_inspection *inspection);

/* Whether one of the object's findings makes the command fail. */
bool hf_inspected_fails(const struct hf_inspected *inspected, const struct hf_object *object);

/* Each writes one form of the result; the context is the struct hf_inspected. */
bool hf_inspected_write_table(FILE *out, void *context);
bool hf_inspected_write_json(FILE *out, void *context);
bool hf_inspected_write_junit(FILE *out, void *context);
bool hf_inspected_write_sarif(FILE *out, void *context);

#endif
