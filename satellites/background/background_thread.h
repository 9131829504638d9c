/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that looks. Owns it, and a lock under which it is started.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_BACKGROUND_THREAD_H
#define HOMEFREE_SATELLITES_BACKGROUND_BACKGROUND_THREAD_H

/* Starts it unless it runs. Any thread, also inside the gate. Returns 0 or a negative errno, after
 * one warning. */
int hf_background_thread_start(void);

/* In a forked child: only stores. */
void hf_background_thread_left(void);

#endif
