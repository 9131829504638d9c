/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory in which a user's processes share adopted copies: homefree/adopted below
 * XDG_CACHE_HOME, or below .cache in HOME.
 *
 * A copy is written to a file of another name first, and renamed when it is whole, so others see
 * all of it or nothing; two processes that make the same copy at a time write the same bytes. The
 * directory and its files belong to the user and only the user can write to them, which is checked
 * at each use. Copies whose original is gone or has changed are removed when another one is made.
 *
 * Owns: nothing. Any thread, any process.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_ADOPTED_CACHE_H
#define HOMEFREE_SATELLITES_ADOPT_ADOPTED_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct hf_adopted_place {
    int directory;             /* descriptor */
    char path[PATH_MAX];       /* of the copy, when it is whole */
    char unfinished[NAME_MAX]; /* its name meanwhile */
};

/*
 * Opens the directory, which is made if it is missing, for a copy of the original with that key.
 * Result: 0, or a negative errno: -ENOENT without XDG_CACHE_HOME and HOME; -EACCES if others can
 * write there; -EPERM for a privileged process, and where code cannot be executed.
 */
int hf_adopted_place_open(struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2]);
void hf_adopted_place_close(struct hf_adopted_place *place);

/* Whether the copy is there, whole. */
bool hf_adopted_place_has(const struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2]);

/* Creates the unfinished file, open for reading and writing. Result: its descriptor or a negative
 * errno. */
int hf_adopted_place_create(struct hf_adopted_place *place);

/* Gives the unfinished file its name, and removes outdated copies. Result: 0 or a negative errno.
 */
int hf_adopted_place_finish(struct hf_adopted_place *place);
void hf_adopted_place_abandon(const struct hf_adopted_place *place);

/*
 * Refusals are kept like copies, so that the search is not repeated in each process. The first
 * returns the error with which a file of that name with those contents was refused, and the reason,
 * or 0; the other keeps one, if it can.
 */
#define HF_ADOPTED_WHY_MAX 512
int hf_adopted_refusal(const char *original, const uint64_t content[2],
                       char why[HF_ADOPTED_WHY_MAX]);
void hf_adopted_refuse(const char *original, const uint64_t content[2], int error, const char *why);

/*
 * Whether a file with those contents has an allocator inside, as an earlier look has found: 1, 0,
 * or negative if there was none. Kept for this process, and, if it has none, for the user's later
 * ones. Keys that differ only by chance may be taken for each other.
 */
int hf_adopted_verdict(const uint64_t content[2]);
void hf_adopted_keep_verdict(const uint64_t content[2], bool has_allocator);

#endif
