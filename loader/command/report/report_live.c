/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See report_live.h.
 */
#include "loader/command/report/report_live.h"

#include "loader/command/command.h"
#include "loader/command/live/live_object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS ((uint64_t)HF_REPORT_CHUNKS_MAX * HF_REPORT_CHUNK)

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

/* ---- records in memory ---------------------------------------------------------------------- */

/* The library that diagnoses the process, or NULL. */
static const struct hf_live_object *find_library(const struct hf_live_objects *objects)
{
    static const char name[] = "libhomefree-diagnose.so";
    for (size_t i = 0; i < objects->count; i++)
        if (strncmp(hf_merged_name(objects->items[i].mapping->path), name, sizeof name - 1) == 0)
            return &objects->items[i];
    return NULL;
}

static bool see_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    uint64_t *address = context;
    if (symbol->defined && strcmp(symbol->name, HF_REPORT_RECORDS_SYMBOL) == 0)
        *address = symbol->value;
    return *address == 0;
}

/* The address of the records, which the library's variable holds; 0: unknown. */
static uint64_t find_records(const struct hf_live_process *process,
                             const struct hf_live_object *library)
{
    struct hf_live_elf file;
    uint64_t variable = 0, records = 0;
    if (hf_live_elf_open(process, library->mapping, &file) != 0)
        return 0;
    (void)hf_elf_symbols(&file.elf, HF_ELF_DYNSYM, see_symbol, &variable);
    hf_live_elf_close(&file);
    if (variable == 0 ||
        !hf_live_read(process, library->base + variable, &records, sizeof records) ||
        records > INT64_MAX - RECORDS)
        return 0;
    return records;
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

/* Reads the records of a process that has no file, unless it has none. */
static int read_unfiled(const char *who, struct hf_merged *merged,
                        const struct hf_live_process *process, const struct hf_live_object *library)
{
    if (library == NULL) {
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
    const uint64_t records = find_records(process, library);
    if (records == 0)
        return complain(who, process, "it has none");
    return read_memory(who, merged, process, records, NULL);
}

static int read_records(const char *who, struct hf_merged *merged,
                        const struct hf_live_process *process)
{
    struct hf_live_objects objects;
    const struct hf_live_mapping *mapping = find_file(process);
    if (mapping != NULL)
        return read_mapped(who, merged, process, mapping);
    if (!hf_live_objects_find(process, &objects))
        return hf_command_out_of_memory(who);
    const int status = read_unfiled(who, merged, process, find_library(&objects));
    hf_live_objects_free(&objects);
    return status;
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
