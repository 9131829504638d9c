/*
 * See report_live.h.
 */
#include "loader/command/report/report_live.h"

#include "loader/command/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS ((uint64_t)HF_REPORT_CHUNKS_MAX * HF_REPORT_CHUNK)

/* Pages in which records without a file are looked for: 1 GiB. */
enum { PAGE = 4096, PAGES_MOST = 1 << 18 };

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

static const struct hf_live_mapping *find_file(const struct hf_live_process *process)
{
    for (size_t i = 0; i < process->mappings_count; i++) {
        const struct hf_live_mapping *mapping = &process->mappings[i];
        if (mapping->shared && mapping->writable && mapping->offset == 0 &&
            ends_with(mapping->path, HF_REPORT_SUFFIX))
            return mapping;
    }
    return NULL;
}

static bool is_diagnosed(const struct hf_live_process *process)
{
    for (size_t i = 0; i < process->mappings_count; i++)
        if (process->mappings[i].executable &&
            strncmp(hf_merged_name(process->mappings[i].path), "libhomefree-diagnose.so",
                    strlen("libhomefree-diagnose.so")) == 0)
            return true;
    return false;
}

/* ---- records in memory ---------------------------------------------------------------------- */

static bool begins_at(const struct hf_live_process *process, uint64_t address)
{
    struct {
        char magic[8];
        uint32_t version, mode, chunks;
    } header;
    return hf_live_read(process, address, &header, sizeof header) &&
           memcmp(header.magic, HF_REPORT_MAGIC, sizeof header.magic) == 0 &&
           header.version == HF_REPORT_VERSION && header.chunks > 0 &&
           header.chunks <= HF_REPORT_CHUNKS_MAX;
}

/* The kernel joins mappings of the same kind, so the records may begin anywhere in one. 0: not
 * found. */
static uint64_t find_records(const struct hf_live_process *process)
{
    size_t pages = 0;
    for (size_t i = 0; i < process->mappings_count; i++) {
        const struct hf_live_mapping *mapping = &process->mappings[i];
        if (mapping->inode != 0 || !mapping->writable || mapping->shared ||
            mapping->end - mapping->start < RECORDS)
            continue;
        for (uint64_t at = mapping->start; mapping->end - at >= RECORDS; at += PAGE) {
            if (begins_at(process, at))
                return at;
            if (++pages == PAGES_MOST)
                return 0;
        }
    }
    return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int open_object(const void *files, const char *path)
{
    const struct hf_live_process *process = files;
    for (size_t i = 0; i < process->mappings_count; i++) {
        if (process->mappings[i].inode == 0 || strcmp(process->mappings[i].path, path) != 0)
            continue;
        const int file = hf_live_open_file(process, &process->mappings[i]);
        if (file >= 0)
            return file;
        break;
    }
    return hf_live_open_path(process, path);
}

static int complain(const char *who, const struct hf_live_process *process, const char *why)
{
    if (!hf_live_runs(process))
        hf_command_complain(who, "process %d ended while it was looked at; %s", (int)process->pid,
                            why);
    else
        hf_command_complain(who, "cannot read the records of process %d: %s", (int)process->pid,
                            why);
    return HF_EXIT_FAILED;
}

static int read_memory(const char *who, struct hf_merged *merged,
                       const struct hf_live_process *process, uint64_t start, const char *path)
{
    struct hf_recorded file;
    const char *why;
    if (hf_recorded_read(&file, process->memory, start, RECORDS, &why) != 0)
        return complain(who, process, why);
    hf_merged_add(merged, &file, path);
    hf_recorded_close(&file);
    return HF_EXIT_NONE;
}

static int read_mapped(const char *who, struct hf_merged *merged,
                       const struct hf_live_process *process, const struct hf_live_mapping *mapping)
{
    struct hf_recorded file;
    struct stat status;
    const char *why = "its file cannot be opened";
    const int descriptor = hf_live_open_file(process, mapping);
    if (descriptor < 0 && process->memory < 0) {
        hf_command_complain(who, "cannot read '%s' of process %d%s, nor its memory: %s",
                            mapping->path, (int)process->pid,
                            mapping->deleted ? ", which has been removed" : "",
                            process->unreadable);
        return HF_EXIT_FAILED;
    }
    if (descriptor < 0)
        return read_memory(who, merged, process, mapping->start, mapping->path);
    int result = fstat(descriptor, &status) == 0 ? 0 : -errno;
    if (result == 0)
        result = hf_recorded_read(&file, descriptor, 0, (uint64_t)status.st_size, &why);
    close(descriptor);
    if (result != 0)
        return complain(who, process, why);
    hf_merged_add(merged, &file, mapping->path);
    hf_recorded_close(&file);
    return HF_EXIT_NONE;
}

static int read_records(const char *who, struct hf_merged *merged,
                        const struct hf_live_process *process)
{
    const struct hf_live_mapping *mapping = find_file(process);
    if (mapping != NULL)
        return read_mapped(who, merged, process, mapping);
    if (!is_diagnosed(process)) {
        hf_command_complain(who,
                            "process %d is not diagnosed; 'homefree run --diagnose -- COMMAND' "
                            "starts a program that is, and 'homefree doctor --pid %d' shows this "
                            "one's allocators",
                            (int)process->pid, (int)process->pid);
        return HF_EXIT_FAILED;
    }
    if (process->memory < 0) {
        hf_command_complain(who,
                            "process %d has written no file, and its memory cannot be read: %s",
                            (int)process->pid, process->unreadable);
        return HF_EXIT_FAILED;
    }
    const uint64_t records = find_records(process);
    if (records == 0)
        return complain(who, process, "it has none");
    return read_memory(who, merged, process, records, NULL);
}

int hf_report_read_live(const char *who, struct hf_merged *merged,
                        const struct hf_live_process *process)
{
    merged->open_object = open_object;
    merged->files = process;
    const int status = read_records(who, merged, process);
    if (status == HF_EXIT_NONE)
        hf_merged_finish(merged);
    return status;
}
