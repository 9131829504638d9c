/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One object in each interpreter of a group. The functions are those of homefree/interpreters.h
 * without forwarding.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_REPLICAS_H
#define HOMEFREE_SATELLITES_INTERPRETERS_REPLICAS_H

#include "satellites/interpreters/interpreter.h"

int hf_replicas_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                    const struct hf_value *arguments, size_t count, struct hf_value *error);
int hf_replicas_from_package(struct hf_replica **out, struct hf_interpreters *group,
                             const char *path, const char *package, const char *name,
                             struct hf_value *error);
int hf_replicas_from_pickle(struct hf_replica **out, struct hf_interpreters *group,
                            const struct hf_value *pickle, struct hf_value *error);
int hf_replicas_call(struct hf_replica *replica, const char *method,
                     const struct hf_value *arguments, size_t count, struct hf_value *result);
void hf_replicas_drop(struct hf_replica *replica);

/* Whether the replica belongs to the parent of a fork. */
bool hf_replicas_is_parents(const struct hf_replica *replica);

#endif
