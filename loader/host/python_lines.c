/* SPDX-License-Identifier: BSD-2-Clause */
/* See python_lines.h. */
#include "loader/host/python_lines.h"

#include <stdbool.h>

/* 3.9: pairs of steps, of the address and of the line (Objects/lnotab_notes.txt). */
static int64_t by_steps(const volatile uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t address = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        address += table[i];
        if (address > at)
            break;
        line += (int8_t)table[i + 1];
    }
    return line;
}

/* 3.10: pairs of a range's length and the step to its line; -128: no line (PEP 626). */
static int64_t by_ranges(const volatile uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t end = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        const int8_t step = (int8_t)table[i + 1];
        end += table[i];
        if (step != -128)
            line += step;
        if (at < end)
            return step != -128 ? line : 0;
    }
    return 0;
}

/* A number in groups of six bits, the lowest first. */
static uint64_t read_number(const volatile uint8_t *table, size_t size, size_t *i)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *i < size && shift < 48; shift += 6) {
        const uint8_t byte = table[(*i)++];
        value |= (uint64_t)(byte & 0x3f) << shift;
        if ((byte & 0x40) == 0)
            break;
    }
    return value;
}

static int64_t read_step(const volatile uint8_t *table, size_t size, size_t *i)
{
    const uint64_t value = read_number(table, size, i);
    return (value & 1) != 0 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Since 3.11: entries that begin with a byte of which bit 7 is set (Objects/locations.md). */
static int64_t by_locations(const volatile uint8_t *table, size_t size, int64_t line, int64_t at)
{
    enum { SHORT = 10, ONE_LINE_MAX = 12, NO_COLUMN = 13, LONG = 14, NONE = 15 };
    int64_t end = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t head = table[i++];
        const unsigned form = head >> 3 & 15;
        end += 2 * (int64_t)((head & 7) + 1);
        if (form == LONG || form == NO_COLUMN)
            line += read_step(table, size, &i);
        else if (form >= SHORT && form <= ONE_LINE_MAX)
            line += form - SHORT;
        if (at < end)
            return form != NONE ? line : 0;
        while (i < size && (table[i] & 0x80) == 0) /* columns */
            i++;
    }
    return 0;
}

uint32_t hf_python_line(unsigned version, const volatile uint8_t *table, size_t size,
                        uint32_t first_line, int64_t at)
{
    const int64_t line = at < 0             ? first_line
                         : version <= 0x309 ? by_steps(table, size, first_line, at)
                         : version == 0x30a ? by_ranges(table, size, first_line, at)
                                            : by_locations(table, size, first_line, at);
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}
