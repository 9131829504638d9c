/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See report_paths.h. Directories are searched first, so that files are read in the order of their
 * names, whatever the order of a directory's entries is.
 */
#include "loader/command/report/report_paths.h"

#include "loader/command/command.h"
#include "loader/command/progress.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char who[] = "homefree report";

enum { DEPTH_MAX = 16 }; /* of directories below a PATH */

/* ---- finding files -------------------------------------------------------------------------- */

struct identity {
    uint64_t device, inode;
};

struct search {
    struct hf_merged *merged;
    struct hf_keep_table seen; /* struct identity */
    const char **files;
    size_t files_count;
    size_t depth;
};

static void complain(const char *path, const char *why)
{
    hf_progress_end();
    hf_command_complain(who, "cannot read '%s': %s", path, why);
}

/* Whether the file or directory has not been seen before. */
static bool is_new(struct search *search, const struct stat *status)
{
    const struct identity identity = {(uint64_t)status->st_dev, (uint64_t)status->st_ino};
    if (hf_keep_table_find(&search->seen, &identity) != NULL)
        return false;
    struct identity *kept = hf_keep_bytes(search->merged->keep, sizeof *kept);
    *kept = identity;
    hf_keep_table_add(&search->seen, kept);
    return true;
}

static void add_file(struct search *search, const char *path)
{
    HF_KEEP_ADD(search->merged->keep, search->files, search->files_count) = path;
}

static bool has_suffix(const char *name)
{
    const size_t length = strlen(name), suffix = sizeof HF_REPORT_SUFFIX - 1;
    return length > suffix && strcmp(name + length - suffix, HF_REPORT_SUFFIX) == 0;
}

static void search_directory(struct search *search, const char *path);

static void look_at(struct search *search, const char *directory, const char *name)
{
    struct hf_keep *keep = search->merged->keep;
    const size_t length = strlen(directory);
    const char *slash = length > 0 && directory[length - 1] == '/' ? "" : "/";
    struct stat status;
    const char *path = hf_keep_format(keep, "%s%s%s", directory, slash, name);
    if (has_suffix(name)) {
        /* One that cannot be examined is reported when it is read. */
        if (stat(path, &status) != 0 || is_new(search, &status))
            add_file(search, path);
    } else if (name[0] != '.' && lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        search_directory(search, path);
    }
}

/* Counts the processes that found the directory full. */
static void look_at_index(struct search *search, const char *directory)
{
    const uint64_t processes =
        hf_recorded_index(hf_keep_format(search->merged->keep, "%s/" HF_REPORT_INDEX, directory));
    if (processes > HF_REPORT_PROCESSES_MAX)
        search->merged->left_out += processes - HF_REPORT_PROCESSES_MAX;
}

static void search_directory(struct search *search, const char *path)
{
    const size_t before = search->files_count;
    struct dirent **entries;
    struct stat status;
    if (search->depth == DEPTH_MAX || stat(path, &status) != 0 || !is_new(search, &status))
        return;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        complain(path, strerror(errno));
        return;
    }
    search->depth++;
    for (int i = 0; i < count; i++) {
        look_at(search, path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (search->files_count > before)
        look_at_index(search, path);
    search->depth--;
}

static void search_path(struct search *search, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        complain(path, strerror(errno));
        return;
    }
    if (!S_ISDIR(status.st_mode)) {
        if (is_new(search, &status))
            add_file(search, path);
        return;
    }
    const size_t before = search->files_count;
    const bool first_time =
        hf_keep_table_find(&search->seen, &(struct identity){(uint64_t)status.st_dev,
                                                             (uint64_t)status.st_ino}) == NULL;
    search_directory(search, path);
    if (search->files_count == before && first_time)
        hf_command_complain(who, "no report in '%s'", path);
}

/* ---- reading them --------------------------------------------------------------------------- */

bool hf_report_read(struct hf_merged *merged, char *const *paths, size_t count)
{
    struct search search = {.merged = merged};
    hf_keep_table_begin(&search.seen, merged->keep, sizeof(struct identity));
    for (size_t i = 0; i < count; i++)
        search_path(&search, paths[i]);
    for (size_t i = 0; i < search.files_count; i++) {
        struct hf_recorded file;
        const char *why;
        hf_progress(who, "%zu of %zu files read", i, search.files_count);
        if (hf_recorded_open(&file, search.files[i], &why) != 0) {
            complain(search.files[i], why);
            merged->left_out++;
            continue;
        }
        hf_merged_add(merged, &file, search.files[i]);
        hf_recorded_close(&file);
    }
    hf_merged_finish(merged);
    hf_progress_end();
    return merged->processes_count > 0;
}
