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

/* How a case ended, and its output in `line`. */
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
    return status;
}

static int signal_of(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void count(struct counts *counts, int status)
{
    const int signal = signal_of(status);
    const bool prevented = WIFEXITED(status) && WEXITSTATUS(status) == KIND_PREVENTED;
    counts->all++;
    counts->caught += signal == SIGABRT;
    counts->hung += signal == SIGALRM;
    counts->crashed += signal != 0 && signal != SIGABRT && signal != SIGALRM;
    counts->prevented += prevented;
    counts->missed += signal == 0 && !prevented;
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
    while (error_at(counts.all, &error)) {
        const int status = run_case(&error, family, line, sizeof line);
        count(&counts, status);
        if (explain && (signal_of(status) != SIGABRT || !is_fatal_line(line, error.text)))
            fprintf(stderr, "%s, %zu bytes, %zu: signal %d: %s\n", error.name, error.size,
                    error.amount, signal_of(status), line);
    }
    return counts;
}

static bool faults(int status, const char *line)
{
    return signal_of(status) == SIGSEGV && line[0] == '\0';
}

static bool ends(const struct kind *kind, int status, const char *line)
{
    for (size_t i = 0; kind->texts[i] != NULL; i++)
        if (signal_of(status) == SIGABRT && is_fatal_line(line, kind->texts[i]))
            return true;
    return false;
}

static bool is_as_promised(const struct kind *kind, enum promise promise, int status,
                           const char *line)
{
    switch (promise) {
    case ENDS:
        return ends(kind, status, line);
    case FAULTS:
        return faults(status, line);
    case STOPS:
        return ends(kind, status, line) || faults(status, line);
    case PREVENTED:
        return WIFEXITED(status) && WEXITSTATUS(status) == KIND_PREVENTED;
    default:
        return signal_of(status) != SIGALRM;
    }
}

struct counts count_kinds(const struct family *family, enum tier tier)
{
    struct counts counts = {0};
    struct kind kind;
    const size_t *sizes;
    char line[4096];
    size_t several;
    for (size_t i = 0; (several = kind_at(i, &kind, &sizes)) != 0; i++)
        for (size_t j = 0; j < several; j++) {
            const struct error error = {.make = kind.make, .size = sizes[j]};
            const int status = run_case(&error, family, line, sizeof line);
            count(&counts, status);
            const enum promise promise =
                tier == TIERS ? NOTHING : (enum promise)kind.promise[tier][j];
            if (is_as_promised(&kind, promise, status, line)) {
                counts.kept += promise != NOTHING;
                continue;
            }
            counts.broken++;
            fprintf(stderr, "%s, %zu bytes: promised %c, status %#x: %s\n", kind.name, sizes[j],
                    (char)promise, (unsigned)status, line);
        }
    return counts;
}
