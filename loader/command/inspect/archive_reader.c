/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See archive_reader.h. Questions and answers are fields that end with a zero byte:
 *
 *   question: the path or name
 *   answer:   "m" offset size name place     a member
 *             "x" name why                   what cannot be inspected
 *             "."                            the end
 */
#include "loader/command/inspect/archive_reader.h"

#include "loader/command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Not constant, since execve(2) takes no constants. */
static unsigned char program[] = {
#include "read_archive.inc"
    0,
};

enum { FIELDS_MAX = 5, MEMORY_FD = 3 };

struct hf_archive_reader {
    pid_t pid;
    int connection, memory;
    FILE *answers;
    char *fields[FIELDS_MAX];
    size_t rooms[FIELDS_MAX];
    enum hf_archive_question question;
};

/* ---- the process ---------------------------------------------------------------------------- */

static int spawn(struct hf_archive_reader *reader, char *python, int theirs)
{
    static char alone[] = "-IS", quiet[] = "-B", minus_c[] = "-c";
    char question[] = {(char)reader->question, '\0'};
    char *line[8];
    size_t count = 0;
    line[count++] = python;
    if (reader->question == HF_ARCHIVE_MEMBERS)
        line[count++] = alone;
    line[count++] = quiet;
    line[count++] = minus_c;
    line[count++] = (char *)program;
    line[count++] = question;
    line[count] = NULL;
    posix_spawn_file_actions_t actions;
    int result = posix_spawn_file_actions_init(&actions);
    if (result != 0)
        return result;
    const bool good =
        posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, reader->memory, MEMORY_FD) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
    result = good ? posix_spawnp(&reader->pid, python, &actions, NULL, line, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* Descriptors above those that the process gets, so that none of them is overwritten. */
static int raise_descriptor(int descriptor)
{
    if (descriptor < 0)
        return -1;
    const int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, MEMORY_FD + 1);
    close(descriptor);
    return raised;
}

struct hf_archive_reader *hf_archive_reader_start(const char *who, char *python,
                                                  enum hf_archive_question question)
{
    struct hf_archive_reader *reader = calloc(1, sizeof *reader);
    int ends[2] = {-1, -1};
    if (reader == NULL) {
        hf_command_out_of_memory(who);
        return NULL;
    }
    reader->question = question;
    reader->memory = raise_descriptor(memfd_create("homefree-inspect", MFD_CLOEXEC));
    int error = reader->memory < 0 ? errno : 0;
    if (error == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        error = errno;
    ends[1] = raise_descriptor(ends[1]);
    reader->connection = ends[0];
    if (error == 0)
        error = spawn(reader, python, ends[1]);
    if (ends[1] >= 0)
        close(ends[1]);
    if (error == 0) {
        reader->answers = fdopen(reader->connection, "r");
        error = reader->answers == NULL ? errno : 0;
    }
    if (error == 0)
        return reader;
    hf_command_complain(
        who, "cannot run '%s', which reads %s: %s; name another Python with --python", python,
        question == HF_ARCHIVE_MEMBERS ? "archives" : "the lists of distributions",
        strerror(error));
    hf_archive_reader_end(reader);
    return NULL;
}

void hf_archive_reader_end(struct hf_archive_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->answers != NULL)
        fclose(reader->answers);
    else if (reader->connection >= 0)
        close(reader->connection);
    if (reader->pid > 0) {
        /* It may be in the middle of a large archive. */
        kill(reader->pid, SIGKILL);
        while (waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (reader->memory >= 0)
        close(reader->memory);
    for (size_t i = 0; i < FIELDS_MAX; i++)
        free(reader->fields[i]);
    free(reader);
}

int hf_archive_reader_descriptor(const struct hf_archive_reader *reader)
{
    return reader->memory;
}

/* ---- questions ------------------------------------------------------------------------------ */

static bool send_all(int connection, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t sent = send(connection, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        if (sent > 0) {
            text += sent;
            length -= (size_t)sent;
        }
    }
    return true;
}

static bool read_fields(struct hf_archive_reader *reader, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const ssize_t length =
            getdelim(&reader->fields[i], &reader->rooms[i], '\0', reader->answers);
        if (length <= 0 || reader->fields[i][length - 1] != '\0')
            return false;
    }
    return true;
}

/* An answer is sent when it is complete. */
static void wait_for_answer(const struct hf_archive_reader *reader, void (*wait)(void *context),
                            void *context)
{
    enum { PAUSE = 100 };
    struct pollfd answer = {.fd = reader->connection, .events = POLLIN};
    int ready;
    while ((ready = poll(&answer, 1, PAUSE)) == 0 || (ready < 0 && errno == EINTR))
        wait(context);
}

int hf_archive_reader_ask(struct hf_archive_reader *reader, const char *what,
                          hf_archive_visitor *visit, void (*wait)(void *context), void *context)
{
    if (!send_all(reader->connection, what, strlen(what) + 1))
        return -EIO;
    wait_for_answer(reader, wait, context);
    while (read_fields(reader, 0, 1)) {
        struct hf_archive_member member = {.name = NULL};
        switch (reader->fields[0][0]) {
        case '.':
            return 0;
        case 'm':
            if (!read_fields(reader, 1, 4))
                return -EIO;
            member.offset = strtoull(reader->fields[1], NULL, 10);
            member.size = strtoull(reader->fields[2], NULL, 10);
            member.name = reader->fields[3];
            member.place = reader->fields[4];
            break;
        case 'x':
            if (!read_fields(reader, 1, 2))
                return -EIO;
            member.name = reader->fields[1];
            member.why = reader->fields[2];
            break;
        default:
            return -EIO;
        }
        visit(&member, context);
    }
    return -EIO;
}
