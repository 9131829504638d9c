/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile of a running process's heap (homefree/profile.h), read from its memory: the samples
 * whose blocks live, with their stacks. What the process does meanwhile may be seen or not.
 *
 * Constraint: the memory is hostile. The book (alloc/base/profile_book.h) is copied first; every
 * reference in the copy is bounded, and what makes no sense is left out.
 *
 * Owns nothing. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_LIVE_LIVE_PROFILE_H
#define HOMEFREE_LOADER_COMMAND_LIVE_LIVE_PROFILE_H

#include "alloc/base/profile_book.h"
#include "loader/command/live/live_process.h"

/* As struct hf_profile_sample; addresses are the process's. The texts are UTF-8 only if the process
 * says the truth. */
struct hf_live_sample {
    uint64_t block, bytes;
    double weight_bytes, weight_blocks;
    uint64_t stack; /* the same number for the same stack; 0: unknown */
    const char *object;
    const uint64_t *frames;
    size_t frames_count, python_count;
    struct hf_live_python {
        const char *function, *file;
        uint32_t line;
    } python[HF_BOOK_FRAMES_MAX];
};

/* Is called for each sample, which is valid during the call. */
typedef void hf_live_profile_visitor(void *context, const struct hf_live_sample *sample);

struct hf_live_profiled {
    uint64_t mean; /* of so many bytes, one makes its block a sample; 0: there was no profile */
    uint64_t samples, lost;
};

/* Reads the profile that a struct hf_live_profile at an address of the process describes. False: it
 * makes no sense, or cannot be read. */
bool hf_live_profile_read(const struct hf_live_process *process, uint64_t description,
                          hf_live_profile_visitor *visit, void *context,
                          struct hf_live_profiled *out);

#endif
