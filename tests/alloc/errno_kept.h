/*
 * What leaves errno alone. Owns nothing; for any thread and child process, as must() is.
 */
#ifndef HOMEFREE_TESTS_ALLOC_ERRNO_KEPT_H
#define HOMEFREE_TESTS_ALLOC_ERRNO_KEPT_H

#include "death.h"

#include <errno.h>

/* Makes a call, whose result is ignored, and dies if errno is another after it. */
#define MUST_KEEP_ERRNO(call) \
    do {                      \
        errno = EBADF;        \
        (void)(call);         \
        must(errno == EBADF); \
    } while (0)

#endif
