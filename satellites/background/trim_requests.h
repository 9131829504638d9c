/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of `homefree trim --pid` (loader/record/live_trim.h), for the thread.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_TRIM_REQUESTS_H
#define HOMEFREE_SATELLITES_BACKGROUND_TRIM_REQUESTS_H

/* The thread begins to look. */
void hf_trim_requests_listen(void);
/* In a forked child, where nobody does. */
void hf_trim_requests_left(void);
/* Answers a request, if there is one. */
void hf_trim_requests_answer(void);

#endif
