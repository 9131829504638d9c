/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See doctor_run.h. Owns the process that runs the program. The command has one thread, so the
 * child of fork() may allocate.
 */
#include "loader/command/doctor/doctor_run.h"

#include "loader/command/command.h"
#include "loader/command/program/preload.h"
#include "loader/command/program/program.h"
#include "loader/record/process_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *who, const char *what)
{
    hf_command_complain(who, "cannot %s: %s", what, strerror(errno));
    return HF_EXIT_FAILED;
}

/* ---- the library ---------------------------------------------------------------------------- */

static char *find_library(const char *who)
{
    char *library = hf_preload_find(HF_PRELOAD_LIBRARY);
    if (library != NULL)
        return library;
    hf_command_complain(who,
                        "cannot find " HF_PRELOAD_LIBRARY " beside the command; give its path with "
                        "--library FILE");
    return NULL;
}

/* A library whose path cannot stand in LD_PRELOAD gets a symbolic link in the directory for
 * records.
 */
static char *preloadable(const char *who, const struct hf_doctor_run *run)
{
    char *path = run->library != NULL ? realpath(run->library, NULL) : find_library(who);
    if (path == NULL) {
        if (run->library != NULL)
            hf_command_complain(who, "cannot use '%s': %s", run->library, strerror(errno));
        return NULL;
    }
    if (hf_preload_obstacle(path) == NULL)
        return path;
    char *link = NULL;
    if (asprintf(&link, "%s/" HF_PRELOAD_LIBRARY, run->directory) < 0 || symlink(path, link) != 0) {
        (void)failed(who, "link to the library");
        free(link);
        link = NULL;
    }
    free(path);
    return link;
}

/* ---- the directory ---- */

static int make_directory(const char *who, struct hf_doctor_run *run)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] != '/' || hf_preload_obstacle(parent) != NULL)
        parent = "/tmp";
    if (asprintf(&run->directory, "%s/homefree-doctor.XXXXXX", parent) < 0) {
        run->directory = NULL;
        errno = ENOMEM;
    } else if (mkdtemp(run->directory) != NULL) {
        return HF_EXIT_CLEAN;
    }
    free(run->directory);
    run->directory = NULL;
    return failed(who, "create a directory for records");
}

void hf_doctor_run_end(struct hf_doctor_run *run)
{
    DIR *directory = run->directory != NULL ? opendir(run->directory) : NULL;
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;)
        (void)unlinkat(dirfd(directory), entry->d_name, 0); /* no subdirectory is ours */
    if (directory != NULL)
        closedir(directory);
    if (run->directory != NULL)
        (void)rmdir(run->directory);
    free(run->directory);
    run->directory = NULL;
}

int hf_doctor_run_open(const struct hf_doctor_run *run, pid_t pid)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%ld", run->directory, (long)pid) < 0)
        return -ENOMEM;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const int result = descriptor < 0 ? -errno : descriptor;
    free(path);
    return result;
}

/* ---- the program ---------------------------------------------------------------------------- */

static volatile pid_t running;

static void hand_on(int number)
{
    const int saved_errno = errno;
    if (running > 0)
        (void)kill(running, number);
    errno = saved_errno;
}

static const int handed_on[] = {SIGTERM, SIGHUP};
static const int ignored[] = {SIGINT, SIGQUIT};
static struct sigaction before[4];
static sigset_t mask_before;

/* Signals that come before it is known to whom wait until then: hand_on() would lose them. */
static void take_signals(void)
{
    sigset_t waiting;
    sigemptyset(&waiting);
    for (size_t i = 0; i < 2; i++)
        sigaddset(&waiting, handed_on[i]);
    sigprocmask(SIG_BLOCK, &waiting, &mask_before);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction hand = {.sa_handler = hand_on, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < 2; i++) {
        sigaction(ignored[i], &ignore, &before[i]);
        sigaction(handed_on[i], NULL, &before[2 + i]);
        if (before[2 + i].sa_handler != SIG_IGN) /* nohup ignores SIGHUP */
            sigaction(handed_on[i], &hand, NULL);
    }
}

static void give_signals_back(void)
{
    for (size_t i = 0; i < 2; i++) {
        sigaction(ignored[i], &before[i], NULL);
        sigaction(handed_on[i], &before[2 + i], NULL);
    }
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* Runs in the child. setenv() allocates, which is safe after a fork of a single thread. */
static bool prepare(const struct hf_doctor_run *run, const char *library)
{
    char *preload = NULL, *request = NULL;
    const char *users = getenv("LD_PRELOAD");
    const bool more = users != NULL && users[0] != '\0';
    return asprintf(&preload, "%s%s%s", more ? users : "", more ? ":" : "", library) >= 0 &&
           asprintf(&request, "%s:%ld:%s", run->start ? "start" : "exit",
                    run->children ? 0L : (long)getpid(), run->directory) >= 0 &&
           unsetenv(HF_PYTHON_VARIABLE) == 0 && setenv("LD_PRELOAD", preload, 1) == 0 &&
           setenv(HF_DOCTOR_VARIABLE, request, 1) == 0 &&
           (!run->stdout_is_stderr || dup2(STDERR_FILENO, STDOUT_FILENO) >= 0);
}

static void become(const struct hf_doctor_run *run, const char *library, int channel)
{
    give_signals_back();
    if (prepare(run, library))
        execvp(run->command[0], run->command);
    const int error = errno;
    (void)!write(channel, &error, sizeof error);
    _exit(127);
}

int hf_doctor_run(const char *who, struct hf_doctor_run *run)
{
    int channel[2];
    if (make_directory(who, run) != HF_EXIT_CLEAN)
        return HF_EXIT_FAILED;
    char *library = preloadable(who, run);
    if (library == NULL)
        return HF_EXIT_FAILED;
    if (pipe2(channel, O_CLOEXEC) != 0) {
        free(library);
        return failed(who, "create a pipe");
    }
    take_signals();
    run->pid = fork();
    if (run->pid == 0)
        become(run, library, channel[1]);
    const int fork_error = errno;
    running = run->pid;
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    free(library);
    close(channel[1]);
    int error = 0;
    ssize_t got = 0;
    if (run->pid > 0) {
        do
            got = read(channel[0], &error, sizeof error);
        while (got < 0 && errno == EINTR);
        while (waitpid(run->pid, &run->status, 0) < 0 && errno == EINTR)
            continue;
    }
    running = 0;
    close(channel[0]);
    give_signals_back();
    if (run->pid < 0) {
        errno = fork_error;
        return failed(who, "start a process");
    }
    if (got == (ssize_t)sizeof error) {
        hf_command_complain(who, "cannot run '%s': %s", run->command[0], strerror(error));
        return HF_EXIT_FAILED;
    }
    return HF_EXIT_CLEAN;
}

/* ---- why there is no record ----------------------------------------------------------------- */

const char *hf_doctor_run_why(const struct hf_doctor_run *run)
{
    static struct hf_program program;
    hf_program_examine(run->command[0], &program);
    if (program.verdict == HF_PROGRAM_UNFIT)
        return program.why;
    if (WIFSIGNALED(run->status) && WTERMSIG(run->status) == SIGKILL)
        return "SIGKILL ended it; try --at start";
    if (WIFSIGNALED(run->status))
        return "a signal ended it before it could write one; try --at start";
    return "it ended with a direct system call, cleared its environment, or could not write the "
           "record; try --at start";
}
