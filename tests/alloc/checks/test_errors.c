/* What is caught of the heap errors that programs make (errors.c): all of them with checks:full, in
 * one line that says what it was; without, what the fast paths leave room for. `test_errors count`
 * prints the numbers, glibc's too. */
#include "death.h"
#include "errors.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t hf_measure(void *ptr)
{
    return hf_usable_size(ptr);
}

static void libc_free_sized(void *ptr, size_t size)
{
    (void)size;
    free(ptr);
}

static void libc_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free(ptr);
}

static const struct family ours = {
    hf_malloc, hf_calloc, hf_realloc, hf_memalign, hf_free, hf_free_sized, hf_free_aligned_sized,
    hf_measure};
static const struct family libcs = {malloc,
                                    calloc,
                                    realloc,
                                    memalign,
                                    free,
                                    libc_free_sized,
                                    libc_free_aligned_sized,
                                    malloc_usable_size};

/* The signal that a case dies of, 0 where it lives on; `line` gets what it wrote. */
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

struct counts {
    size_t all, caught, crashed, missed;
};

static struct counts count(const struct family *family, bool tell)
{
    struct counts counts = {0};
    struct error error;
    char line[4096];
    for (; error_at(counts.all, &error); counts.all++) {
        int signal = run_case(&error, family, line, sizeof line);
        counts.caught += signal == SIGABRT;
        counts.crashed += signal != 0 && signal != SIGABRT;
        counts.missed += signal == 0;
        if (tell &&
            (signal != SIGABRT || strstr(line, "homefree: fatal: ") != line ||
             strstr(line, error.text) == NULL || strchr(line, '\n') != line + strlen(line) - 1))
            fprintf(stderr, "%s, %zu bytes, %zu: signal %d: %s\n", error.name, error.size,
                    error.amount, signal, line);
    }
    return counts;
}

static int part(const char *what)
{
    struct counts counts =
        count(strcmp(what, "libc") == 0 ? &libcs : &ours, strcmp(what, "full") == 0);
    if (strcmp(what, "count") == 0 || strcmp(what, "libc") == 0)
        printf("of %zu: %zu caught, %zu crashed, %zu missed\n", counts.all, counts.caught,
               counts.crashed, counts.missed);
    must(counts.all >= 100);
    if (strcmp(what, "full") == 0)
        must(counts.caught == counts.all);
    if (strcmp(what, "default") == 0) /* found late or not at all, but no crash in our own code */
        must(counts.crashed == 0);
    return 0;
}

static void run(const char *what, const char *configuration)
{
    const char *const arguments[] = {own_path(), what, NULL};
    const char *const environment[] = {configuration, NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}

START_TEST(all_are_caught)
{
    run("full", "HOMEFREE_CONF=checks:full");
}
END_TEST

START_TEST(none_crashes_in_our_code)
{
    run("default", "HOMEFREE_CONF=checks:default");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(argv[1]);
    return RUN_SUITE(all_are_caught, none_crashes_in_our_code);
}
