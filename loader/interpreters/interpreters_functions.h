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
    int (*totals)(struct hf_interpreters_totals *out);
    int (*begin)(struct hf_session **out, struct hf_interpreters *group, int index, int timeout_ms);
    unsigned (*session_index)(const struct hf_session *session);
    int (*attach)(struct hf_session *session);
    int (*detach)(struct hf_session *session);
    void (*session_end)(struct hf_session *session);
    int (*post)(int64_t interpreter, void (*run)(void *argument), void *argument);
    int (*hold)(int64_t interpreter);
    void (*unhold)(int64_t interpreter);
    int64_t (*current)(void);
};

#endif
