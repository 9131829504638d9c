/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/interpreters/replica.h - one object in each interpreter of a group.
 *
 * A replica is an object that each interpreter of a group has one of, such as a model: made there
 * by a function, or from a pickle. A call goes to whichever interpreter is free. The rules are
 * those of homefree/interpreters.h.
 */
#ifndef HOMEFREE_INTERPRETERS_REPLICA_H
#define HOMEFREE_INTERPRETERS_REPLICA_H

#include <homefree/interpreters/value.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_interpreters; /* homefree/interpreters.h */
struct hf_replica;

/*
 * Makes one object in each interpreter of a group, such as a model.
 *
 * Parameters:
 *   out        out: the replica; unchanged on error
 *   group      in: the group, which must not be ended before the replica is dropped
 *   maker      in: a function, as for hf_session_call(), that returns the object
 *   arguments  in: count values, for maker in each interpreter
 *   count      in: how many
 *   error      out: HF_VALUE_ERROR if Python raised, else HF_VALUE_NONE; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out, group or maker is NULL
 *   -ENOMEM  there is no memory
 *   others   as hf_session_begin() and hf_session_call()
 * Frees: drop the replica with hf_replica_drop(), and pass error to hf_value_clear().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_replica_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                          const struct hf_value *arguments, size_t count, struct hf_value *error);

/*
 * Makes one object in each interpreter of a group from a pickle in a package that
 * homefree.package has written.
 *
 * An interpreter loads the object when it is first called there. One does so at once, so that an
 * error of the package is reported here. The package's modules are the object's own in each
 * interpreter. Its arrays are mapped: the file must not be changed before the replica is dropped,
 * and pages that nobody writes to exist once in the process. The package `homefree` must be in the
 * interpreters.
 *
 * Parameters:
 *   out      out: the replica; unchanged on error
 *   group    in: the group, which must not be ended before the replica is dropped
 *   path     in: the file or directory; links in it are followed now
 *   package  in: as for add_pickle() of homefree.package.Writer, such as "models"; NULL: ""
 *   name     in: as there, such as "model.pkl"
 *   error    out: HF_VALUE_ERROR if Python raised, else HF_VALUE_NONE; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out, group, path or name is NULL
 *   -EPROTO  Python raised: the package cannot be opened, is damaged, or lacks the pickle
 *   -ENOMEM  there is no memory
 *   others   as hf_session_begin() and hf_session_call()
 * Frees: drop the replica with hf_replica_drop(), and pass error to hf_value_clear().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_replica_from_package(struct hf_replica **out, struct hf_interpreters *group,
                                   const char *path, const char *package, const char *name,
                                   struct hf_value *error);

/*
 * Makes one object in each interpreter of a group from a pickle.
 *
 * An interpreter unpickles the object when it is first called there. One does so at once, so that
 * an error of the pickle is reported here. Unpickling can run any code: the pickle must come from
 * somebody who may run code in this process.
 *
 * Parameters:
 *   out     out: the replica; unchanged on error
 *   group   in: the group, which must not be ended before the replica is dropped
 *   pickle  in: HF_VALUE_PICKLE, for example the result of a call, or HF_VALUE_BYTES with a pickle
 *           that needs no buffers. The bytes are copied once; the memory is used by reference, so
 *           it exists once in the process
 *   error   out: HF_VALUE_ERROR if Python raised, else HF_VALUE_NONE; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out, group or pickle is NULL, or pickle is no pickle
 *   -EPROTO  Python raised
 *   -ENOMEM  there is no memory
 *   others   as hf_session_begin() and hf_session_call()
 * Frees: drop the replica with hf_replica_drop(), and pass error to hf_value_clear(). The pickle
 *   stays the caller's.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_replica_from_pickle(struct hf_replica **out, struct hf_interpreters *group,
                                  const struct hf_value *pickle, struct hf_value *error);

/*
 * Calls a replica, or a method of it, in the interpreter of its group that has the fewest sessions.
 *
 * Parameters:
 *   replica    in: the replica
 *   method     in: "name" or "name.name"; NULL: the object itself
 *   arguments  in: count values
 *   count      in: how many
 *   result     out: what the call returned, or HF_VALUE_ERROR; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  replica is NULL, or an argument is invalid
 *   -EPROTO  Python raised
 *   others   as hf_session_begin() and hf_session_call()
 * Frees: pass result to hf_value_clear(). The arguments stay the caller's.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_replica_call(struct hf_replica *replica, const char *method,
                           const struct hf_value *arguments, size_t count, struct hf_value *result);

/*
 * Drops a replica; its objects are released in their interpreters soon afterwards.
 *
 * Parameters:
 *   replica  in: the replica; NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: the replica.
 * Threads: safe; nobody may use the replica any more.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_replica_drop(struct hf_replica *replica);

#ifdef __cplusplus
}
#endif
#endif
