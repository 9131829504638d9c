/*
 * Sealed tables: what homefree jumps through, or would jump to on the word of, is read-only except
 * while it changes. One stray or hostile write would otherwise turn the next free(p) into a call of
 * anything.
 *
 * A table that relocation alone fills is const instead, and lies in RELRO. A sealed one is declared
 *
 *     static union {
 *         void *functions[COUNT];
 *         char pages[HF_SEAL_SIZE(void *[COUNT])];
 *     } table HF_SEALED;
 *
 * which gives it whole pages in one section; before libhomefree's constructor they are
 * writable, afterwards only between hf_seal_open() and hf_seal_close(). Reading costs what it
 * always does.
 *
 * Any thread, at any stage, in a signal handler too: all signals are blocked from open to close, so
 * nothing may happen between the two but stores into sealed tables. Over fork(2) the tables are
 * closed. errno stays.
 */
#ifndef HOMEFREE_SEAL_H
#define HOMEFREE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__aarch64__)
#    define HF_SEAL_PAGE 65536 /* the largest that Linux has */
#else
#    define HF_SEAL_PAGE 4096
#endif
#define HF_SEAL_SIZE(type) ((sizeof(type) + HF_SEAL_PAGE - 1) / HF_SEAL_PAGE * HF_SEAL_PAGE)
#define HF_SEALED          __attribute__((section("hf_sealed"), aligned(HF_SEAL_PAGE)))

/* What a thread keeps from open to close: its signal mask. */
struct hf_seal {
    uint64_t signals;
};

/* Makes the tables read-only from now on. Called once, as the first step of libhomefree's start
 * (start/start.h); what is stored before that is stored all the same. */
void hf_seal_start(void);

/* Makes the tables writable for this thread's stores, once no other thread is storing. False where
 * the system refuses; then nothing may be stored, and hf_seal_close() must not be called. */
bool hf_seal_open(struct hf_seal *seal);

/* Makes them read-only again, or ends the process. Where a sandbox forbids that by now they stay
 * writable. */
void hf_seal_close(const struct hf_seal *seal);

#endif
