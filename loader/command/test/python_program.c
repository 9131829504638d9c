/* SPDX-License-Identifier: BSD-2-Clause */
/* See python_program.h. */
#include "loader/command/test/python_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Its result is not in the text, which other programs may print. Valid in every version of Python.
 */
static char question[] = "import sys; sys.stdout.write('homefree' * 3 + ' %d\\n' % (6 * 7))";
static const char answer[] = "homefreehomefreehomefree 42\n";

enum { ROOM = 65536 }; /* of a wrapper that has something to say first */

static long now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* In a process group of its own, which can be ended as a whole. Returns 0 or an errno. */
static int start(const char *program, int output, pid_t *child)
{
    static char no_site[] = "-S", no_environment[] = "-E", command[] = "-c";
    char *const words[] = {
        (char *)(unsigned long)program, no_site, no_environment, command, question, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (error == 0)
        error = posix_spawnp(child, program, &files, &attributes, words, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

static enum hf_python_answer read_answer(int input)
{
    static char text[ROOM];
    const size_t wanted = sizeof answer - 1;
    size_t length = 0;
    const long end = now() + HF_PYTHON_SECONDS * 1000L;
    while (length < ROOM) {
        const long left = end - now();
        struct pollfd ready = {.fd = input, .events = POLLIN};
        if (left <= 0)
            return HF_PYTHON_SILENT;
        const int count = poll(&ready, 1, (int)left);
        if (count < 0 && errno != EINTR)
            return HF_PYTHON_NO;
        if (count <= 0)
            continue;
        const ssize_t size = read(input, text + length, ROOM - length);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        length += (size_t)size;
        if (length >= wanted && memcmp(text + length - wanted, answer, wanted) == 0)
            return HF_PYTHON_YES;
    }
    return HF_PYTHON_NO;
}

enum hf_python_answer hf_python_ask(const char *program)
{
    int channel[2];
    pid_t child;
    if (pipe2(channel, O_CLOEXEC) != 0)
        return HF_PYTHON_NOT_RUN;
    const int error = start(program, channel[1], &child);
    (void)close(channel[1]);
    if (error != 0) {
        (void)close(channel[0]);
        errno = error;
        return HF_PYTHON_NOT_RUN;
    }
    const enum hf_python_answer result = read_answer(channel[0]);
    (void)close(channel[0]);
    (void)kill(-child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return result;
}
