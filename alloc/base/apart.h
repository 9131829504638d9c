/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large variables that begin as zeros lie apart from the small ones (loader/sections.ld). All small
 * ones of libhomefree then fill four pages, which a start touches anyway; among arrays they would
 * lie in twenty, and each costs a page fault.
 */
#ifndef HOMEFREE_ALLOC_BASE_APART_H
#define HOMEFREE_ALLOC_BASE_APART_H

/* In the definition of an array of 1 KiB or more, before its type or at the end. */
#define HF_APART __attribute__((section(".bss.apart")))

#endif
