/* Stands in for the preload libraries: every process that loads it says so in the file HF_TEST_LOG,
 * by its number and the library's name. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef NAME
#    define NAME "preload"
#endif

__attribute__((constructor)) static void report(void)
{
    const char *path = getenv("HF_TEST_LOG");
    char line[64];
    const int length = snprintf(line, sizeof line, "%ld %s\n", (long)getpid(), NAME);
    const int log = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (log >= 0 && write(log, line, (size_t)length) == length)
        close(log);
}
