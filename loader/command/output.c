/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes results and error messages; see command.h.
 *
 * Owns: the temporary file beside a result while it is written. No state between calls.
 */
#include "loader/command/command.h"

#include "loader/command/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hf_command_complain(const char *who, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line = hf_text_format(format, arguments);
    va_end(arguments);
    if (line == NULL) {
        fprintf(stderr, "%s: out of memory\n", who);
        return;
    }
    fprintf(stderr, "%s: ", who);
    hf_text_print(stderr, line);
    fputc('\n', stderr);
    free(line);
}

int hf_command_out_of_memory(const char *who)
{
    hf_command_complain(who, "out of memory");
    return HF_EXIT_FAILED;
}

int hf_command_print(const char *who, const char *text, size_t length)
{
    if (fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0)
        return HF_EXIT_CLEAN;
    hf_command_complain(who, "cannot write to stdout: %s", strerror(errno));
    return HF_EXIT_FAILED;
}

/* Result: 0 or a negative errno. */
static int write_all(int descriptor, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(descriptor, text, length);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

/* Whether the file contains `text` and nothing else; false if it cannot be read. */
static bool holds(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return false;
    bool same = true;
    for (size_t done = 0; same && done < length;) {
        char block[4096];
        const size_t wanted = length - done < sizeof block ? length - done : sizeof block;
        const size_t got = fread(block, 1, wanted, file);
        same = got == wanted && memcmp(block, text + done, got) == 0;
        done += got;
    }
    same = same && fgetc(file) == EOF && !ferror(file);
    fclose(file);
    return same;
}

/* The permissions that open(2) gives a new file. The umask can only be read by setting it. */
static mode_t new_file_mode(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Writes beside `path` and renames. Result: 0 or a negative errno. */
static int replace(const char *path, mode_t mode, const char *text, size_t length)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.XXXXXX", path) < 0)
        return -ENOMEM;
    const int descriptor = mkostemp(beside, O_CLOEXEC);
    if (descriptor < 0) {
        const int result = -errno;
        free(beside);
        return result;
    }
    int result = write_all(descriptor, text, length);
    if (result == 0 && fchmod(descriptor, mode) != 0)
        result = -errno;
    /* Some network file systems report a full device only here. */
    if (close(descriptor) != 0 && result == 0)
        result = -errno;
    if (result == 0 && rename(beside, path) != 0)
        result = -errno;
    if (result != 0)
        unlink(beside);
    free(beside);
    return result;
}

/* Result: 0 or a negative errno. */
static int write_through(const char *path, const char *text, size_t length)
{
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return -errno;
    int result = write_all(descriptor, text, length);
    if (close(descriptor) != 0 && result == 0)
        result = -errno;
    return result;
}

int hf_command_write(const char *who, const char *path, const char *text, size_t length)
{
    if (strcmp(path, "-") == 0)
        return hf_command_print(who, text, length);

    int result = 0;
    struct stat status;
    if (lstat(path, &status) != 0) {
        result = errno == ENOENT ? replace(path, new_file_mode(), text, length) : -errno;
    } else if (stat(path, &status) != 0) { /* a link to a file that is still to be made */
        result = errno == ENOENT ? write_through(path, text, length) : -errno;
    } else if (!S_ISREG(status.st_mode)) {
        result = write_through(path, text, length);
    } else if (!holds(path, text, length)) {
        /* Write beside the file itself, not beside a link to it: the rename would replace the
         * link. */
        char *target = realpath(path, NULL);
        result = target == NULL ? -errno : replace(target, status.st_mode & 07777, text, length);
        free(target);
    }
    if (result == 0)
        return HF_EXIT_CLEAN;
    hf_command_complain(who, "cannot write '%s': %s", path, strerror(-result));
    return HF_EXIT_FAILED;
}

int hf_command_compose(const char *who, const char *path, hf_command_composer *compose,
                       void *context)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return hf_command_out_of_memory(who);
    const bool show = compose(out, context);
    const bool whole = ferror(out) == 0;
    int result = fclose(out) == 0 && whole ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
    if (result == HF_EXIT_CLEAN && show)
        result = hf_command_write(who, path, text, length);
    free(text);
    return result;
}
