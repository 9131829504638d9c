/* See counts.h. */
#include "counts.h"

#include "death.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 5 };

/* Returns the signal that killed the case, or 0 if it survived, and its output in `line`. */
static int run_case(const struct error *error, const struct family *family, char *line, size_t size)
{
    int ends[2], status;
    must(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)dup2(ends[1], STDERR_FILENO);
        alarm(patience(SECONDS));
        error->make(family, error->size, error->amount);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got;
         length < size - 1 && (got = read(ends[0], line + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    line[length] = '\0';
    close(ends[0]);
    must(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool is_fatal_line(const char *line, const char *text)
{
    return strstr(line, "homefree: fatal: ") == line && strstr(line, text) != NULL &&
           strchr(line, '\n') == line + strlen(line) - 1;
}

struct counts count_errors(const struct family *family, bool explain)
{
    struct counts counts = {0};
    struct error error;
    char line[4096];
    for (; error_at(counts.all, &error); counts.all++) {
        int signal = run_case(&error, family, line, sizeof line);
        counts.caught += signal == SIGABRT;
        counts.hung += signal == SIGALRM;
        counts.crashed += signal != 0 && signal != SIGABRT && signal != SIGALRM;
        counts.missed += signal == 0;
        if (explain && (signal != SIGABRT || !is_fatal_line(line, error.text)))
            fprintf(stderr, "%s, %zu bytes, %zu: signal %d: %s\n", error.name, error.size,
                    error.amount, signal, line);
    }
    return counts;
}
