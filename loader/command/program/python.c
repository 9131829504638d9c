/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See python.h. Owns nothing.
 */
#include "loader/command/program/python.h"

#include "loader/command/command.h"
#include "loader/command/program/preload.h"
#include "loader/command/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Its arguments: who speaks, what helps, the directory of the package `command`, the module, and
 * the module's own, of which the first is this command's path. The lines before the check are valid
 * in every version of Python, 2.7 too. */
static const char start[] =
    "import sys\n"
    "sys.path = [path for path in sys.path if path]\n"
    "who, instead, directory, part = sys.argv[1:5]\n"
    "def fail(why):\n"
    "    sys.stderr.write('%s: %s %s; name CPython 3.9 or later in HOMEFREE_PYTHON, or %s\\n' %\n"
    "                     (who, sys.executable, why, instead))\n"
    "    sys.exit(3)\n"
    "if sys.version_info < (3, 9):\n"
    "    fail('is Python %d.%d' % sys.version_info[:2])\n"
    "sys.path.append(directory)\n"
    "try:\n"
    "    from command import start\n"
    "    main = start.find(part)\n"
    "except ImportError as error:\n"
    "    fail('has no standard library that is whole (%s)' % error)\n"
    "start.run(who, main, sys.argv[5:])\n";

/* A wheel in a user's site directory is below lib/python3.N, and its Python is elsewhere. */
static bool find_of_wheel(char *out, size_t capacity)
{
    char *library = hf_preload_find(HF_PRELOAD_LIBRARY);
    const char *at = library != NULL ? strstr(library, "/python3.") : NULL;
    const size_t length = at != NULL ? strcspn(at + 1, "/") : 0;
    const bool found = length > 0 && length < capacity;
    if (found) {
        memcpy(out, at + 1, length);
        out[length] = '\0';
    }
    free(library);
    return found;
}

void hf_python_find(char *out, size_t capacity)
{
    const char *named = getenv(HF_PYTHON_VARIABLE);
    if (named != NULL && named[0] != '\0' && strlen(named) < capacity) {
        memcpy(out, named, strlen(named) + 1);
        return;
    }
    char *directory = hf_preload_directory();
    const bool beside = directory != NULL &&
                        snprintf(out, capacity, "%s/python3", directory) < (int)capacity &&
                        access(out, X_OK) == 0;
    free(directory);
    if (beside)
        return;
    snprintf(out, capacity, "%s", HF_COMMAND_PYTHON);
    if (out[0] == '/' && access(out, X_OK) == 0)
        return;
    if (!find_of_wheel(out, capacity))
        snprintf(out, capacity, "python3");
}

char *hf_python_file(const char *name)
{
    static const char *const places[] = {"../../python/homefree/command",
                                         HF_COMMAND_PACKAGE "/command",
                                         HF_COMMAND_PACKAGE_INSTALLED "/command", NULL};
    return hf_preload_find_in(places, name);
}

/* The directory in which the package `command` lies, to be freed; NULL after an error message. */
static char *find_package(const char *who, const char *instead)
{
    static const char below[] = "/command/start.py";
    char *path = hf_python_file("start.py");
    if (path != NULL)
        path[strlen(path) - (sizeof below - 1)] = '\0';
    else
        hf_command_complain(who,
                            "the command's files in Python are missing; install homefree "
                            "again, or %s",
                            instead);
    return path;
}

static int cannot_run(const char *who, const char *python, const char *why, const char *instead)
{
    hf_command_complain(who,
                        "cannot run '%s': %s; this needs CPython 3.9 or later: install it or name "
                        "it in HOMEFREE_PYTHON, or %s",
                        python, why, instead);
    return HF_EXIT_FAILED;
}

int hf_python_check(const char *who, const char *instead)
{
    static struct hf_program program;
    char python[PATH_MAX];
    char *directory = find_package(who, instead);
    if (directory == NULL)
        return HF_EXIT_FAILED;
    free(directory);
    hf_python_find(python, sizeof python);
    hf_program_examine(python, &program);
    return program.verdict != HF_PROGRAM_BROKEN ? HF_EXIT_CLEAN
                                                : cannot_run(who, python, program.why, instead);
}

int hf_python_document(const char *who, hf_command_composer *compose, void *context, int *document)
{
    const int created = memfd_create("homefree", MFD_CLOEXEC);
    const int memory = created >= 0 ? fcntl(created, F_DUPFD, STDERR_FILENO + 1) : -1;
    FILE *out = memory >= 0 ? fdopen(created, "wb") : NULL;
    bool whole = out != NULL, show = false;
    if (whole) {
        show = compose(out, context);
        whole = ferror(out) == 0;
        whole = fclose(out) == 0 && whole;
    }
    if (!whole) {
        hf_command_complain(who, "cannot hand the result to Python: %s", strerror(errno));
        return HF_EXIT_FAILED;
    }
    *document = show ? memory : -1;
    return HF_EXIT_CLEAN;
}

/* ---- words ---------------------------------------------------------------------------------- */

void hf_words_add(struct hf_words *words, const char *name, const char *value)
{
    if (value == NULL)
        return;
    HF_KEEP_ADD(words->keep, words->values, words->count) =
        hf_keep_format(words->keep, "%s=%s", name, value);
}

void hf_words_add_options(struct hf_words *words, const struct hf_argument *arguments,
                          const void *request)
{
    for (const struct hf_argument *each = arguments; each->name != NULL; each++) {
        const void *member = (const char *)request + each->offset;
        if (each->take != NULL)
            continue;
        if (each->value == NULL)
            hf_words_add(words, each->name, *(const bool *)member ? "1" : NULL);
        else
            hf_words_add(words, each->name, *(const char *const *)member);
    }
}

static char *word(const char *text)
{
    return (char *)(unsigned long)text; /* execvp(3) changes none */
}

int hf_python_become(const char *who, const char *part, const struct hf_words *words,
                     const char *instead)
{
    char python[PATH_MAX];
    char *self = NULL, *path = hf_preload_self();
    char *directory = find_package(who, instead);
    if (directory == NULL) {
        free(path);
        return HF_EXIT_FAILED;
    }
    hf_python_find(python, sizeof python);
    if (asprintf(&self, "self=%s", path != NULL ? path : "") < 0)
        self = NULL;
    free(path);
    /* Without the environment, the current directory and site packages: what people have installed
     * or set cannot be in the way, and starting takes half the time. Python 2 has no -I. */
    char *first[] = {python,    word("-E"),    word("-s"), word("-S"), word("-c"), word(start),
                     word(who), word(instead), directory,  word(part), self};
    enum { FIRST = sizeof first / sizeof first[0] };
    char **line = calloc(FIRST + words->count + 1, sizeof *line);
    if (line == NULL || self == NULL) {
        free(line);
        free(directory);
        free(self);
        return hf_command_out_of_memory(who);
    }
    memcpy(line, first, sizeof first);
    for (size_t i = 0; i < words->count; i++)
        line[FIRST + i] = word(words->values[i]);
    execvp(python, line);
    const int error = errno;
    free(line);
    free(directory);
    free(self);
    return cannot_run(who, python, strerror(error), instead);
}
