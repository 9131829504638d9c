/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython's line tables: the line of an instruction. Owns nothing; reads a table that the caller
 * has. Any thread, at any stage.
 */
#ifndef HOMEFREE_LOADER_HOST_PYTHON_LINES_H
#define HOMEFREE_LOADER_HOST_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The line of the instruction at byte `at` of the code. version: 3.12 is 0x30c. table: the bytes of
 * co_lnotab or co_linetable, which may be damaged. Returns 0 if there is none. */
uint32_t hf_python_line(unsigned version, const volatile uint8_t *table, size_t size,
                        uint32_t first_line, int64_t at);

#endif
