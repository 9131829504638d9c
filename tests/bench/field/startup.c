/* Starts processes that do nothing (nothing.c), one after the other, with the allocator that this
 * one has. */
#include "field.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

void field_work(const struct field_call *call)
{
    size_t count = field_times(call, 400);
    char *arguments[] = {(char *)(uintptr_t)call->program, "--start",
                         (char *)(uintptr_t)call->nothing, NULL};
    for (size_t i = 0; i < count; i++) {
        pid_t child;
        int status;
        if (posix_spawn(&child, call->program, NULL, NULL, arguments, environ) != 0 ||
            waitpid(child, &status, 0) != child || status != 0)
            abort();
    }
}
