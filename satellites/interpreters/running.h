/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread runs in an interpreter, by name: for hf_interpreters_stats(), which asks from
 * another thread, and for the handler of a crash.
 *
 * A name belongs to a session or to an interpreter's owner thread, and is written by its thread
 * alone. Any thread reads it, and nobody waits: a name that changes while it is read counts as
 * none.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_RUNNING_H
#define HOMEFREE_SATELLITES_INTERPRETERS_RUNNING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_RUNNING_MAX   128 /* bytes of a name, the zero included; longer ones are cut */
#define HF_RUNNING_WORDS (HF_RUNNING_MAX / sizeof(uint64_t))

struct hf_interpreter;

struct hf_running {
    struct hf_interpreter *interpreter;
    atomic_uint changes;                      /* odd while the name changes */
    _Atomic uint64_t words[HF_RUNNING_WORDS]; /* a text; "": nothing is known */
};

/* A name that another one covers for a while. */
struct hf_running_before {
    uint64_t words[HF_RUNNING_WORDS];
};

/* Names what runs; NULL: nothing. */
void hf_running_name(struct hf_running *running, const char *name);

/* The same for a while; the end makes the earlier name current again. Without `running`, these do
 * nothing. */
void hf_running_begin(struct hf_running *running, struct hf_running_before *before,
                      const char *name);
void hf_running_end(struct hf_running *running, const struct hf_running_before *before);

/* Copies the name; false if it is empty or is changing. Async-signal-safe. */
bool hf_running_read(const struct hf_running *running, char out[HF_RUNNING_MAX]);

#endif
