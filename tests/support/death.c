/*
 * Owns the latest outcome. The child's stderr goes to a memory file, not a pipe, so that a child
 * may write any amount, and its own children may outlive it, with nobody reading meanwhile.
 */
#include "death.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void must_failed(const char *file, int line, const char *condition)
{
    dprintf(STDERR_FILENO, "%s:%d: must(%s) failed\n", file, line, condition);
    abort();
}

unsigned patience(unsigned seconds)
{
    const char *factor = getenv("CK_TIMEOUT_MULTIPLIER");
    return factor != NULL ? (unsigned)(seconds * strtod(factor, NULL)) : seconds;
}

static pid_t start_child(int text)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    /* Deaths are expected here and must leave no core files. */
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(text, STDERR_FILENO);
    signal(SIGALRM, SIG_DFL); /* Check's handler would kill the test together with the child */
    alarm(patience(OUTCOME_SECONDS));
    return 0;
}

/* What the child wrote, without the line that QEMU's emulator for single programs adds when one is
 * killed. */
static void read_text(struct outcome *out, int text)
{
    static const char emulators[] = "qemu: uncaught target signal ";
    FILE *file = fdopen(text, "r");
    ck_assert_ptr_nonnull(file);
    rewind(file);
    size_t length = 0;
    while (length + 1 < sizeof out->text) {
        char *start = out->text + length;
        if (fgets(start, (int)(sizeof out->text - length), file) == NULL)
            break;
        if (strncmp(start, emulators, sizeof emulators - 1) != 0)
            length += strlen(start);
    }
    out->text[length] = '\0';
    fclose(file);
}

static void end_child(struct outcome *out, pid_t child, int text)
{
    pid_t ended = waitpid(child, &out->status, 0);
    read_text(out, text);
    ck_assert_int_eq(ended, child);
}

static int text_file(void)
{
    int text = memfd_create("stderr of a child", MFD_CLOEXEC);
    ck_assert_int_ge(text, 0);
    return text;
}

void outcome_of_function(struct outcome *out, void (*function)(void *context), void *context)
{
    int text = text_file();
    pid_t child = start_child(text);
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        function(context);
        _exit(0);
    }
    end_child(out, child, text);
}

static void start_program(const struct program *program)
{
    unsetenv("HOMEFREE_CONF");
    for (const char *const *e = program->environment; e != NULL && *e != NULL; e++)
        putenv((char *)(size_t)*e);
    if (program->prepare != NULL && program->prepare() != 0)
        _exit(126);
    if (program->address_space != 0) {
        const struct rlimit limit = {program->address_space, program->address_space};
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(126);
    }
    execv(program->arguments[0], (char *const *)(size_t)program->arguments);
    _exit(127);
}

void outcome_of_program(struct outcome *out, const struct program *program)
{
    int text = text_file();
    pid_t child = start_child(text);
    ck_assert_int_ge(child, 0);
    if (child == 0)
        start_program(program);
    end_child(out, child, text);
}

static struct outcome latest;

const struct outcome *outcome_of_call(void (*function)(void *context), void *context)
{
    outcome_of_function(&latest, function, context);
    return &latest;
}

const struct outcome *outcome_of_self(const char *setting, const char *const *arguments)
{
    const char *const environment[] = {setting, NULL};
    const struct program program = {.arguments = arguments, .environment = environment};
    outcome_of_program(&latest, &program);
    return &latest;
}

const char *own_path(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    return path;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

void outcome_assert(const char *file, int line, const struct outcome *outcome, bool killed,
                    int value, size_t lines, const char *const texts[])
{
    int status = outcome->status;
    bool was_killed = WIFSIGNALED(status);
    int was = was_killed ? WTERMSIG(status) : WEXITSTATUS(status);
    if (was_killed != killed || was != value)
        ck_abort_msg("%s:%d: the child %s %d, expected it %s %d; it wrote: %s", file, line,
                     was_killed ? "was killed by signal" : "exited with", was,
                     killed ? "killed by signal" : "to exit with", value, outcome->text);
    size_t length = strlen(outcome->text);
    if (count_lines(outcome->text) != lines || (length > 0 && outcome->text[length - 1] != '\n'))
        ck_abort_msg("%s:%d: the child did not write %zu line(s): %s", file, line, lines,
                     outcome->text);
    for (; *texts != NULL; texts++)
        if (strstr(outcome->text, *texts) == NULL)
            ck_abort_msg("%s:%d: '%s' is not in what the child wrote: %s", file, line, *texts,
                         outcome->text);
}
