/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. A name is guarded by a count of its changes, which is odd meanwhile.
 */
#include "satellites/interpreters/running.h"

#include <string.h>

/* What lies behind the first zero does not matter, and is left as it is. */
static void store(struct hf_running *running, const uint64_t *words, size_t count)
{
    const unsigned changes = atomic_load_explicit(&running->changes, memory_order_relaxed);
    atomic_store_explicit(&running->changes, changes + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&running->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&running->changes, changes + 2, memory_order_release);
}

void hf_running_name(struct hf_running *running, const char *name)
{
    uint64_t words[HF_RUNNING_WORDS];
    const size_t length = name != NULL ? strnlen(name, HF_RUNNING_MAX - 1) : 0;
    words[length / sizeof words[0]] = 0;
    if (length > 0)
        memcpy(words, name, length);
    store(running, words, length / sizeof words[0] + 1);
}

void hf_running_begin(struct hf_running *running, struct hf_running_before *before,
                      const char *name)
{
    if (running == NULL)
        return;
    /* Mostly there is none, and so one word of it. */
    before->words[0] = atomic_load_explicit(&running->words[0], memory_order_relaxed);
    for (size_t i = 1; i < HF_RUNNING_WORDS && before->words[0] != 0; i++)
        before->words[i] = atomic_load_explicit(&running->words[i], memory_order_relaxed);
    hf_running_name(running, name);
}

void hf_running_end(struct hf_running *running, const struct hf_running_before *before)
{
    if (running != NULL)
        store(running, before->words, before->words[0] != 0 ? HF_RUNNING_WORDS : 1);
}

bool hf_running_read(const struct hf_running *running, char out[HF_RUNNING_MAX])
{
    uint64_t words[HF_RUNNING_WORDS];
    const unsigned before = atomic_load_explicit(&running->changes, memory_order_acquire);
    for (size_t i = 0; i < HF_RUNNING_WORDS; i++)
        words[i] = atomic_load_explicit(&running->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    const unsigned after = atomic_load_explicit(&running->changes, memory_order_relaxed);
    memcpy(out, words, sizeof words);
    out[HF_RUNNING_MAX - 1] = '\0';
    return before == after && before % 2 == 0 && out[0] != '\0';
}
