/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions: which interpreter a thread may use, and attaching to it. Beginning and ending one takes
 * no lock while nobody waits; the counters are atomic.
 *
 * All functions are the ones of homefree/interpreters.h without forwarding, for groups of this
 * process (not of a fork's parent).
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_SESSIONS_H
#define HOMEFREE_SATELLITES_INTERPRETERS_SESSIONS_H

#include "satellites/interpreters/thread_states.h"

int hf_sessions_begin(struct hf_session **out, struct hf_interpreters *group, int index,
                      int timeout_ms);
int hf_sessions_attach(struct hf_session *session);
int hf_sessions_detach(struct hf_session *session);
void hf_sessions_end(struct hf_session *session);

/* Whether the calling thread has a session of this group. */
bool hf_sessions_has(const struct hf_interpreters *group);

/* HF_ENGINE_THREADS: raises an exception in the threads that run sessions of an interpreter now.
 * The calling thread is attached. */
void hf_sessions_interrupt(struct hf_interpreter *interpreter, struct hf_py_object *exception);

/* Ends the sessions of a thread that ends. */
void hf_sessions_thread_ends(struct hf_thread_record *record);

#endif
