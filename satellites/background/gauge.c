/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See gauge.h.
 */
#include "satellites/background/gauge.h"

enum { WELL_BELOW = 20 }; /* a part of the limit */

bool hf_gauge_tells(struct hf_gauge *gauge, const struct hf_cgroup_use *use, bool stalled,
                    uint64_t now)
{
    const uint64_t level = use->limit / 100 * gauge->per_cent;
    if (gauge->per_cent == 0 || (use->limit == 0 && !stalled))
        return false;
    if (!stalled && use->usage < level) {
        if (use->usage + use->limit / WELL_BELOW < level) {
            gauge->told = false;
            gauge->pause = HF_GAUGE_AGAIN;
        }
        return false;
    }
    if (gauge->told_at != 0 && now - gauge->told_at < gauge->pause)
        return false;
    if (!gauge->told)
        gauge->pause = HF_GAUGE_FIRST;
    else if (gauge->pause < HF_GAUGE_LONGEST)
        gauge->pause *= 2;
    gauge->told = true;
    gauge->told_at = now;
    return true;
}
