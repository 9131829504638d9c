/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See run_report.h. Owns the report's directory until the program runs.
 */
#include "loader/command/run/run_report.h"

#include "alloc/diagnose/report_format.h"
#include "loader/command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Directories of the current directory that processes of this number may have left behind. */
enum { OLD_MAX = 1000 };

static int cannot_use(const char *who, const char *option, const char *path, const char *why)
{
    hf_command_complain(who, "cannot use %s '%s': %s", option, path, why);
    return HF_EXIT_FAILED;
}

/* Whether the variable can express a path. It has no way to quote a comma. */
static int check_path(const char *who, const char *option, const char *path)
{
    enum { KEY_MAX = 16 };
    if (strlen(path) + KEY_MAX > HF_DIAGNOSE_PAIR_MAX)
        return cannot_use(who, option, path, "its path is too long; name another");
    if (strchr(path, ',') == NULL)
        return HF_EXIT_CLEAN;
    return cannot_use(who, option, path,
                      "its path contains a comma, which " HF_DIAGNOSE_VARIABLE " cannot express; "
                      "name another");
}

/* ---- the directory ---- */

/* Makes the directories above the last part of a path: 0 or an errno. */
static int make_parents(char *path)
{
    for (char *at = path + strspn(path, "/"); (at = strchr(at, '/')) != NULL;
         at += strspn(at, "/")) {
        if (at[strspn(at, "/")] == '\0')
            break;
        *at = '\0';
        const int result = mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
        *at = '/';
        if (result != 0)
            return result;
    }
    return 0;
}

/* Makes a directory that only its owner can enter: 0 or an errno. */
static int make_directory(const char *path, bool *made)
{
    struct stat status;
    *made = mkdir(path, 0700) == 0;
    if (*made)
        return 0;
    if (errno != EEXIST)
        return errno;
    if (stat(path, &status) != 0)
        return errno;
    if (!S_ISDIR(status.st_mode))
        return ENOTDIR;
    return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int make_named(const char *who, const char *name, struct hf_run_directory *directory)
{
    char *path = strdup(name);
    if (path == NULL)
        return hf_command_out_of_memory(who);
    int error = make_parents(path);
    if (error == 0)
        error = make_directory(path, &directory->made);
    free(path);
    if (error == 0 && (directory->path = realpath(name, NULL)) == NULL)
        error = errno;
    return error == 0 ? HF_EXIT_CLEAN : cannot_use(who, "--report", name, strerror(error));
}

static int make_usual(const char *who, struct hf_run_directory *directory)
{
    char name[64];
    int length = snprintf(name, sizeof name, "homefree-report.%ld", (long)getpid());
    for (int old = 1; mkdir(name, 0700) != 0; old++) {
        if (errno != EEXIST || old > OLD_MAX) {
            hf_command_complain(who,
                                "cannot create the report's directory '%s': %s; name another "
                                "with --report",
                                name, strerror(errno));
            return HF_EXIT_FAILED;
        }
        snprintf(name + length, sizeof name - (size_t)length, ".%d", old);
    }
    directory->made = true;
    directory->path = realpath(name, NULL);
    if (directory->path != NULL)
        return HF_EXIT_CLEAN;
    const int error = errno;
    (void)rmdir(name);
    return cannot_use(who, "the report's directory", name, strerror(error));
}

void hf_run_directory_end(struct hf_run_directory *directory)
{
    if (directory->made && directory->path != NULL)
        (void)rmdir(directory->path);
    free(directory->path);
    directory->path = NULL;
}

/* ---- the files ------------------------------------------------------------------------------ */

/* Makes the path of a file that the library will read absolute. `*real` stays NULL if there is
 * none. */
static int find_file(const char *who, const char *option, const char *path, bool directory_too,
                     char **real)
{
    struct stat status;
    *real = NULL;
    if (path == NULL)
        return HF_EXIT_CLEAN;
    if (stat(path, &status) != 0 || faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
        return cannot_use(who, option, path, strerror(errno));
    if (!S_ISREG(status.st_mode) && !(directory_too && S_ISDIR(status.st_mode)))
        return cannot_use(who, option, path,
                          directory_too ? "neither a file nor a directory" : "not a regular file");
    *real = realpath(path, NULL);
    if (*real == NULL)
        return cannot_use(who, option, path, strerror(errno));
    return check_path(who, option, *real);
}

int hf_run_prepare(const char *who, const struct hf_run_diagnosis *diagnosis,
                   struct hf_run_directory *directory, char **value)
{
    char *sites = NULL, *suppressions = NULL;
    *directory = (struct hf_run_directory){.path = NULL};
    *value = NULL;
    int result = find_file(who, "--sites", diagnosis->sites, true, &sites);
    if (result == HF_EXIT_CLEAN)
        result = find_file(who, "--suppressions", diagnosis->suppressions, false, &suppressions);
    if (result == HF_EXIT_CLEAN && diagnosis->report != NULL)
        result = check_path(who, "--report", diagnosis->report);
    if (result == HF_EXIT_CLEAN)
        result = diagnosis->report != NULL ? make_named(who, diagnosis->report, directory)
                                           : make_usual(who, directory);
    if (result == HF_EXIT_CLEAN) /* the current directory's path may have one, too */
        result = check_path(who, "--report", directory->path);
    if (result == HF_EXIT_CLEAN &&
        asprintf(value, "mode:%s,directory:%s%s%s%s%s%s%s%s%s", diagnosis->mode, directory->path,
                 sites != NULL ? ",sites:" : "", sites != NULL ? sites : "",
                 suppressions != NULL ? ",suppressions:" : "",
                 suppressions != NULL ? suppressions : "",
                 diagnosis->sample != NULL ? ",sample:" : "",
                 diagnosis->sample != NULL ? diagnosis->sample : "",
                 diagnosis->leaks ? ",leaks:1" : "", diagnosis->quiet ? ",quiet:1" : "") < 0) {
        *value = NULL;
        result = hf_command_out_of_memory(who);
    }
    if (result == HF_EXIT_CLEAN && *value != NULL && strlen(*value) > HF_DIAGNOSE_VALUE_MAX) {
        hf_command_complain(who,
                            "the paths of the report's directory, --sites and --suppressions are "
                            "too long together; use shorter ones");
        result = HF_EXIT_FAILED;
    }
    free(sites);
    free(suppressions);
    if (result != HF_EXIT_CLEAN) {
        hf_run_directory_end(directory);
        free(*value);
        *value = NULL;
    }
    return result;
}
