/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stub for wheels: a libhomefree.so.1 without code. The dynamic linker loads it where no other is
 * found, and fails with the name of the symbol below, which nothing defines.
 */
    .section .data.rel.ro, "aw", %progbits
    .balign 8
    .quad "this module needs homefree: import homefree before it (its wheel comes from whoever published this module)"
    .section .note.GNU-stack, "", %progbits
