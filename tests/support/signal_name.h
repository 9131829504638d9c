/* The abbreviated names of the signals that end tests; glibc's sigabbrev_np() came with 2.32. */
#ifndef HOMEFREE_TESTS_SUPPORT_SIGNAL_NAME_H
#define HOMEFREE_TESTS_SUPPORT_SIGNAL_NAME_H

#include <signal.h>
#include <stddef.h>

/* "ABRT" for SIGABRT, and so on; "NAL" for others. */
static inline const char *signal_name(int number)
{
    static const char *const names[] = {
        [SIGABRT] = "ABRT", [SIGALRM] = "ALRM", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
        [SIGHUP] = "HUP",   [SIGILL] = "ILL",   [SIGINT] = "INT",   [SIGKILL] = "KILL",
        [SIGPIPE] = "PIPE", [SIGQUIT] = "QUIT", [SIGSEGV] = "SEGV", [SIGSYS] = "SYS",
        [SIGTERM] = "TERM", [SIGTRAP] = "TRAP", [SIGUSR1] = "USR1", [SIGUSR2] = "USR2",
        [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
    };
    const int count = sizeof names / sizeof names[0];
    return number >= 0 && number < count && names[number] != NULL ? names[number] : "NAL";
}

#endif
