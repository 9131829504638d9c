/* Pages whose next access calls a function of the test, which may hold the thread there. This is
 * how the tests of this directory force their schedules. One stretch of pages in a program. */
#ifndef HOMEFREE_TESTS_LOADER_RACES_GUARDED_H
#define HOMEFREE_TESTS_LOADER_RACES_GUARDED_H

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static struct {
    char *start;
    size_t size;
    int before; /* the protection that the pages get back */
    void (*accessed)(void);
} guarded;

static inline void guarded_fault(int number, siginfo_t *info, void *context)
{
    const char *at = info->si_addr;
    (void)context;
    if (at < guarded.start || at >= guarded.start + guarded.size) {
        signal(number, SIG_DFL);
        return;
    }
    guarded.accessed();
    mprotect(guarded.start, guarded.size, guarded.before);
}

/* Gives the pages of [at, at + size) the protection `now`. An access that this refuses calls
 * accessed(), then finds the protection `before`. */
static inline void guard(void *at, size_t size, int now, int before, void (*accessed)(void))
{
    const struct sigaction action = {.sa_sigaction = guarded_fault,
                                     .sa_flags = SA_SIGINFO | SA_NODEFER};
    guarded.start = (char *)((uintptr_t)at & -(uintptr_t)PAGE);
    guarded.size = (size_t)((char *)at + size - guarded.start + PAGE - 1) & -(size_t)PAGE;
    guarded.before = before;
    guarded.accessed = accessed;
    if (sigaction(SIGSEGV, &action, NULL) != 0 || mprotect(guarded.start, guarded.size, now) != 0)
        abort();
}

#endif
