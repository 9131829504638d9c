/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who waits for pressure (homefree/pressure.h), and what the thread does about it: by the option
 * pressure it trims, by last_words it writes, and it tells those who wait.
 *
 * Owns the watches, which a lock guards, and, for the thread alone, the cgroup that it looks at.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_PRESSURE_WATCHES_H
#define HOMEFREE_SATELLITES_BACKGROUND_PRESSURE_WATCHES_H

#include <homefree/pressure.h>

/* For others than the thread. */
int hf_watches_begin(struct hf_pressure_watch **out, unsigned per_cent);
int hf_watches_wait(struct hf_pressure_watch *watch, struct hf_pressure *out, int timeout_ms);
void hf_watches_cancel(struct hf_pressure_watch *watch);
void hf_watches_end(struct hf_pressure_watch *watch);
/* In a forked child, before its lock is used again. */
void hf_watches_left(void);

/* For the thread: looks, and returns in how many milliseconds to do so again; -1: nobody wants it
 * to. */
int hf_watches_look(void);
/* A descriptor to poll for POLLPRI meanwhile, or -1; and what has come of it. The program may have
 * closed it, and have another file there: it is only polled. */
int hf_watches_stalls(void);
void hf_watches_stalled(short events);

#endif
