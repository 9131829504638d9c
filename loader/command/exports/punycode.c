/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See punycode.h. The names of the constants are those of RFC 3492, section 5.
 */
#include "loader/command/exports/punycode.h"

#include <stdbool.h>

enum { BASE = 36, T_MIN = 1, T_MAX = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72, FIRST_N = 128 };

static char digit(uint64_t value)
{
    return (char)(value < 26 ? 'a' + value : '0' + (value - 26));
}

/* The expected size of the next delta, so that it takes few digits. */
static uint64_t adapt(uint64_t delta, uint64_t points, bool first)
{
    delta /= first ? DAMP : 2;
    delta += delta / points;
    uint64_t k = 0;
    for (; delta > (BASE - T_MIN) * T_MAX / 2; k += BASE)
        delta /= BASE - T_MIN;
    return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

/* Writes a delta, its least significant digit first. Returns the end of the output. */
static char *write_delta(char *out, uint64_t delta, uint64_t bias)
{
    for (uint64_t k = BASE;; k += BASE) {
        const uint64_t t = k < bias + T_MIN ? T_MIN : k > bias + T_MAX ? T_MAX : k - bias;
        if (delta < t)
            break;
        *out++ = digit(t + (delta - t) % (BASE - t));
        delta = (delta - t) / (BASE - t);
    }
    *out++ = digit(delta);
    return out;
}

void hf_punycode_encode(const uint32_t *points, size_t count, char *out)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i++)
        if (points[i] < FIRST_N) {
            *out++ = (char)points[i];
            done++;
        }
    const size_t basic = done;
    if (basic > 0)
        *out++ = '-';

    uint64_t delta = 0;
    uint64_t bias = FIRST_BIAS;
    for (uint32_t n = FIRST_N; done < count; n++) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < count; i++)
            if (points[i] >= n && points[i] < next)
                next = points[i];
        delta += (uint64_t)(next - n) * (done + 1);
        n = next;
        for (size_t i = 0; i < count; i++) {
            if (points[i] < n)
                delta++;
            if (points[i] != n)
                continue;
            out = write_delta(out, delta, bias);
            bias = adapt(delta, done + 1, done == basic);
            delta = 0;
            done++;
        }
        delta++;
    }
    *out = '\0';
}
