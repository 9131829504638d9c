/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adopted copies that `homefree run --adopt` has preloaded in place of libraries that the program
 * needs. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_ADOPT_START_COPIES_H
#define HOMEFREE_LOADER_ADOPT_START_COPIES_H

/* The end of LD_PRELOAD that is for this program alone, not for those that it starts. */
#define HF_START_COPIES_VARIABLE "HOMEFREE_START_COPIES"

/* Takes that end out of LD_PRELOAD, and the variable out of the environment. Called once, by the
 * library's constructor. */
void hf_start_copies_leave(void);

#endif
