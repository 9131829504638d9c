/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the protection of the sealed section, and the futex that serialises writers. See seal.h.
 *
 * This file makes its system calls directly: a preloaded library may interpose mprotect(), and
 * glibc's sigprocmask() leaves two signals unblocked. The futex sleeps rather than spins, because a
 * thread of higher real-time priority must not spin for one of lower.
 */
#include "alloc/base/seal.h"

#include "alloc/base/fatal.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char first[] __asm__("__start_hf_sealed") __attribute__((visibility("hidden")));
extern char end[] __asm__("__stop_hf_sealed") __attribute__((visibility("hidden")));

enum { UNLOCKED, LOCKED, LOCKED_AND_AWAITED };
/* Points into a MADV_WIPEONFORK page: the child has no thread to release the lock. */
static uint32_t early_lock;
static uint32_t *lock = &early_lock;

static void lock_seal(void)
{
    uint32_t seen = UNLOCKED;
    if (__atomic_compare_exchange_n(lock, &seen, LOCKED, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(lock, LOCKED_AND_AWAITED, __ATOMIC_ACQUIRE) != UNLOCKED)
        syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, LOCKED_AND_AWAITED, NULL, NULL, 0);
}

static void unlock_seal(void)
{
    if (__atomic_exchange_n(lock, UNLOCKED, __ATOMIC_RELEASE) == LOCKED_AND_AWAITED)
        syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint64_t block_signals(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    return before;
}

static void restore_signals(uint64_t before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* Set once the tables were made read-only for the first time. */
static bool sealed;
/* Set before the tables become writable, cleared after they are read-only. A child inherits it. */
static bool opened;

static bool protect(int protection)
{
    return syscall(SYS_mprotect, first, (size_t)(end - first), protection) == 0;
}

static __attribute__((noreturn, cold)) void fail(const char *what)
{
    const int error = errno;
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text,
                "fatal: cannot make homefree's tables of functions %s (errno %d); raise the "
                "limits on memory and on mappings (vm.max_map_count)",
                what, error);
    hf_fatal(&text);
}

static void close_or_die(void)
{
    if (protect(PROT_READ)) {
        __atomic_store_n(&opened, false, __ATOMIC_RELEASE);
        return;
    }
    /* A sandbox installed since then forbids mprotect(): continuing with writable tables beats
     * ending the process. */
    if (errno == EPERM || errno == EACCES)
        return;
    fail("read-only");
}

/* Leaves errno as the system set it on failure. */
static bool open_tables(struct hf_seal *seal)
{
    seal->signals = block_signals();
    lock_seal();
    seal->locked = true;
    if (!sealed)
        return true;
    __atomic_store_n(&opened, true, __ATOMIC_RELEASE);
    const bool done = protect(PROT_READ | PROT_WRITE);
    if (!done) {
        const int error = errno;
        __atomic_store_n(&opened, false, __ATOMIC_RELEASE);
        unlock_seal();
        restore_signals(seal->signals);
        errno = error;
    }
    return done;
}

bool hf_seal_open(struct hf_seal *seal)
{
    const int saved_errno = errno;
    const bool done = open_tables(seal);
    errno = saved_errno;
    return done;
}

void hf_seal_open_to_start(struct hf_seal *seal)
{
    const int saved_errno = errno;
    seal->locked = false;
    if (__atomic_load_n(&sealed, __ATOMIC_RELAXED) && !open_tables(seal))
        fail("writable to start");
    errno = saved_errno;
}

void hf_seal_close(const struct hf_seal *seal)
{
    if (!seal->locked)
        return;
    const int saved_errno = errno;
    if (sealed)
        close_or_die();
    unlock_seal();
    restore_signals(seal->signals);
    errno = saved_errno;
}

/* ---- start ---- */

static void in_child(void);

void hf_seal_prepare(void)
{
    const int saved_errno = errno;
    uint32_t *page =
        mmap(NULL, HF_SEAL_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, HF_SEAL_PAGE, MADV_WIPEONFORK) == 0)
        lock = page;
    pthread_atfork(NULL, NULL, in_child);
    errno = saved_errno;
}

static bool start(bool may_fail)
{
    const int saved_errno = errno;
    const struct hf_seal seal = {.signals = block_signals(), .locked = true};
    lock_seal();
    /* MADV_RANDOM has no effect on resident pages, but keeps the section a mapping of its own.
     * Opening it then never merges it with adjacent mappings and closing it never splits one, which
     * the kernel refuses at the limit on mappings. */
    (void)madvise(first, (size_t)(end - first), MADV_RANDOM);
    const bool done = !may_fail || protect(PROT_READ) || errno == EPERM || errno == EACCES;
    __atomic_store_n(&sealed, done, __ATOMIC_RELAXED);
    hf_seal_close(&seal);
    errno = saved_errno;
    return done;
}

void hf_seal_start(void)
{
    (void)start(false);
}

bool hf_seal_start_satellite(void)
{
    return start(true);
}

/* ---- fork ---- */

/* No lock is held across fork, because atfork handlers registered earlier may load objects. If
 * another thread was writing, the child inherits open tables and loses only that thread's
 * unpublished change. If the tables are closed, no system call is made: a sandbox may forbid
 * mprotect(2) by now. */
static void in_child(void)
{
    const int saved_errno = errno;
    if (early_lock != UNLOCKED)
        early_lock = UNLOCKED;
    if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) && protect(PROT_READ))
        __atomic_store_n(&opened, false, __ATOMIC_RELEASE);
    errno = saved_errno;
}
