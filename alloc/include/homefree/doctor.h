/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/doctor.h - the facts about this process's allocators, for `homefree doctor`.
 */
#ifndef HOMEFREE_DOCTOR_H
#define HOMEFREE_DOCTOR_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes a record of the process, for `homefree doctor --read FILE`: the loaded objects, the
 * allocator that each uses, and what routing reached.
 *
 * Parameters:
 *   descriptor  in: open for writing. A pipe needs a reader in another process, because the dynamic
 *               loader's lock is held during the call.
 * Result: 0 or a negative errno.
 * Errors:
 *   -ENOTSUP  this instance of libhomefree forwards to one that keeps no records
 *   others    as write(2)
 * Frees: nothing; the caller closes the descriptor.
 * Threads: safe; takes the dynamic loader's lock.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_doctor_record(int descriptor);

#ifdef __cplusplus
}
#endif
#endif
