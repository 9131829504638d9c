/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sealed tables: the tables that homefree calls through, or that decide what it calls, are
 * read-only except while they change. Otherwise one stray or hostile write would turn the next
 * free(p) into a call of anything.
 *
 * A table that relocation alone fills is const instead, and lies in RELRO. A sealed one is declared
 *
 *     static HF_SEALED_UNION(void *[COUNT], functions) table HF_SEALED;
 *
 * which gives it a place in a section that has whole pages. The section is writable until
 * libhomefree's constructor ends, and from then on only between hf_seal_open() and hf_seal_close().
 * (Opening it for each table that the start fills took a seventh of the start's time.) Reading
 * costs nothing extra.
 *
 * Any thread, at any stage, in signal handlers too. One lock serialises writers. All signals are
 * blocked from open to close, and the code in between may only store into sealed tables. fork(2)
 * leaves the tables closed in the child. Every function preserves errno.
 */
#ifndef HOMEFREE_ALLOC_BASE_SEAL_H
#define HOMEFREE_ALLOC_BASE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__aarch64__)
#    define HF_SEAL_PAGE 65536 /* the largest page size that Linux has */
#else
#    define HF_SEAL_PAGE 4096
#endif
#if defined(HF_SEALED_TOGETHER) /* loader/sections.ld gives the whole section its pages */
#    define HF_SEAL_SIZE(type) sizeof(type)
#    define HF_SEALED          __attribute__((section("hf_sealed")))
#else
#    define HF_SEAL_SIZE(type) ((sizeof(type) + HF_SEAL_PAGE - 1) / HF_SEAL_PAGE * HF_SEAL_PAGE)
#    define HF_SEALED          __attribute__((section("hf_sealed"), aligned(HF_SEAL_PAGE)))
#endif

/* The table's type, with its one member. */
#define HF_SEALED_UNION(type, member)   \
    union {                             \
        __typeof__(type) member;        \
        char pages[HF_SEAL_SIZE(type)]; \
    }

/* A thread's state from open to close: its signal mask, and whether it holds the lock. */
struct hf_seal {
    uint64_t signals;
    bool locked;
};

/* Prepares for fork(2). Called once, as the first step of libhomefree's start (start/start.h),
 * because handlers of other units open the tables in the child. */
void hf_seal_prepare(void);

/* Makes the tables read-only. Called once, as the last step of libhomefree's start; earlier stores
 * into the tables stand. */
void hf_seal_start(void);

/* The same for a satellite, which does without if the system refuses. Returns whether it did it. */
bool hf_seal_start_satellite(void);

/* Makes the tables writable for this thread, after waiting for other writers. False if the system
 * refuses: then store nothing and do not call hf_seal_close(). */
bool hf_seal_open(struct hf_seal *seal);

/* The same while a copy starts, without which it cannot work: ends the process if the system
 * refuses. Before hf_seal_start() this does nothing: tables that are filled so have no other
 * writer. */
void hf_seal_open_to_start(struct hf_seal *seal);

/* Makes the tables read-only again, or ends the process. If a sandbox forbids that by now, the
 * tables stay writable. */
void hf_seal_close(const struct hf_seal *seal);

#endif
