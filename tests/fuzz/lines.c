/*
 * CPython's tables of lines, in all their forms, which diagnosis reads from the process's memory
 * while other threads may free it. An input is the version, the place, and the table.
 */
#include "fuzz.h"
#include "loader/host/python_lines.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned versions[] = {0x309, 0x30a, 0x30b, 0x30e};
    uint16_t at = 0;
    if (size < 1 + sizeof at)
        return 0;
    memcpy(&at, data + 1, sizeof at);
    const uint32_t first = (data[0] & 0x80) != 0 ? UINT32_MAX : 1;
    const size_t table = size - 1 - sizeof at;
    uint8_t *copy = malloc(table > 0 ? table : 1);
    ck_assert_ptr_nonnull(copy);
    if (table > 0)
        memcpy(copy, data + 1 + sizeof at, table);
    ck_assert_uint_le(hf_python_line(versions[data[0] & 3], copy, table, first, (int64_t)at - 1),
                      INT32_MAX);
    free(copy);
    return 0;
}
