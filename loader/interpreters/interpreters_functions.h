/*
 * The functions of homefree/interpreters.h that copies of libhomefree of one ABI call in each
 * other. Append only. Owns nothing.
 */
#ifndef HOMEFREE_INTERPRETERS_FUNCTIONS_H
#define HOMEFREE_INTERPRETERS_FUNCTIONS_H

#include <homefree/interpreters.h>

struct hf_interpreters_functions {
    int (*engine)(char *why, size_t size);
    int (*start)(struct hf_interpreters **out, const struct hf_interpreters_options *options,
                 char *why, size_t why_size);
    unsigned (*count)(const struct hf_interpreters *group);
    int (*stats)(struct hf_interpreters *group, unsigned index, struct hf_interpreter_stats *out);
    int (*end)(struct hf_interpreters *group, int timeout_ms);
    int (*totals)(struct hf_interpreters_counts *out);
    int (*begin)(struct hf_session **out, struct hf_interpreters *group, int index, int timeout_ms);
    unsigned (*session_index)(const struct hf_session *session);
    int (*attach)(struct hf_session *session);
    int (*detach)(struct hf_session *session);
    void (*session_end)(struct hf_session *session);
    int (*post)(int64_t interpreter, void (*run)(void *argument), void *argument);
    int (*hold)(int64_t interpreter);
    void (*unhold)(int64_t interpreter);
    int64_t (*current)(void);
    void (*value_clear)(struct hf_value *value);
    int (*run)(struct hf_session *session, const char *source, struct hf_value *error);
    int (*call)(struct hf_session *session, const char *function, const struct hf_value *arguments,
                size_t count, struct hf_value *result);
    int (*call_any)(struct hf_interpreters *group, const char *function,
                    const struct hf_value *arguments, size_t count, struct hf_value *result);
    int (*replica_new)(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                       const struct hf_value *arguments, size_t count, struct hf_value *error);
    int (*replica_call)(struct hf_replica *replica, const char *method,
                        const struct hf_value *arguments, size_t count, struct hf_value *result);
    void (*replica_drop)(struct hf_replica *replica);
    int (*finish)(int timeout_ms);
    int (*left)(int64_t interpreter, bool give_back, struct hf_interpreter_left *out);
    int (*replica_from_package)(struct hf_replica **out, struct hf_interpreters *group,
                                const char *path, const char *package, const char *name,
                                struct hf_value *error);
    int (*replica_from_pickle)(struct hf_replica **out, struct hf_interpreters *group,
                               const struct hf_value *pickle, struct hf_value *error);
    int (*session_name)(struct hf_session *session, const char *name);
};

#endif
