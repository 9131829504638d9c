/*
 * Preloaded into the command: its process may not read another one's memory, as where Yama's
 * ptrace_scope forbids it, which a test cannot set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The headers give it the name that the command calls. */
__attribute__((visibility("default"))) int openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (strcmp(path, "mem") == 0) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}
