/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When pressure is told, so that it is not without pause: when usage reaches a level, and while it
 * stays there, each time after twice as long: what was done about it has given little.
 *
 * Owns nothing; no lock. Times are nanoseconds of one clock.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_GAUGE_H
#define HOMEFREE_SATELLITES_BACKGROUND_GAUGE_H

#include "satellites/background/cgroup.h"

struct hf_gauge {
    unsigned per_cent; /* 0: never tells */
    bool told;         /* and usage has not been well below since */
    uint64_t told_at;  /* 0: never */
    uint64_t pause;    /* from then on */
};

/* After usage was well below, and while it was not. */
#define HF_GAUGE_AGAIN   ((uint64_t)200000000)
#define HF_GAUGE_FIRST   ((uint64_t)1000000000)
#define HF_GAUGE_LONGEST (64 * HF_GAUGE_FIRST)

/* Whether pressure is to be told now. `stalled`: there is some, whatever the usage. */
bool hf_gauge_tells(struct hf_gauge *gauge, const struct hf_cgroup_use *use, bool stalled,
                    uint64_t now);

#endif
