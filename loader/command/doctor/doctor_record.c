/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and checks a record. Owns nothing between calls; see doctor_record.h.
 */
#include "loader/command/doctor/doctor_record.h"

#include "loader/record/process_record.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_MOST = 64 << 20, OBJECTS_MOST = 100000, ENTRIES_MOST = 1 << 20, FIELDS = 8 };

static int fail(struct hf_record *record, int error, const char *why)
{
    record->why = why;
    return error;
}

static int damaged(struct hf_record *record)
{
    return fail(record, -ENOEXEC, "the record is damaged");
}

static int no_memory(struct hf_record *record)
{
    return fail(record, -ENOMEM, "out of memory");
}

/* ---- the file ------------------------------------------------------------------------------- */

static int read_file(int descriptor, struct hf_record *record, size_t *length)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return fail(record, -errno, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(record, -ENOEXEC, "it is not a regular file");
    if (status.st_size > SIZE_MOST)
        return fail(record, -ENOEXEC, "it is larger than any record");
    size_t size = (size_t)status.st_size, done = 0;
    record->text = malloc(size + 1);
    if (record->text == NULL)
        return no_memory(record);
    while (done < size) {
        ssize_t got = pread(descriptor, record->text + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(record, -errno, strerror(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    record->text[done] = '\0';
    *length = done;
    return 0;
}

/* ---- fields --------------------------------------------------------------------------------- */

struct line {
    char *fields[FIELDS];
    size_t count;
};

static int digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Decodes in place, which never lengthens the text. Returns false for text that process_record.c
 * does not write. */
static bool decode(char *text)
{
    char *to = text;
    for (char *at = text; *at != '\0'; at++) {
        if (*at != '%') {
            if (*at <= ' ' || *at >= 0x7f)
                return false;
            *to++ = *at;
            continue;
        }
        int high = digit(at[1]), low = high >= 0 ? digit(at[2]) : -1;
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        at += 2;
    }
    *to = '\0';
    return to > text;
}

/* Empty fields become NULL. */
static bool split(char *text, struct line *line)
{
    line->count = 0;
    for (char *next = text; next != NULL;) {
        if (line->count == FIELDS)
            return false;
        char *at = next, *tab = strchr(at, '\t');
        next = tab != NULL ? tab + 1 : NULL;
        if (tab != NULL)
            *tab = '\0';
        bool empty = strcmp(at, "-") == 0;
        if (!empty && !decode(at))
            return false;
        line->fields[line->count++] = empty ? NULL : at;
    }
    return line->fields[0] != NULL;
}

static bool number(const char *text, uint64_t *out)
{
    *out = 0;
    if (text == NULL || *text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || *out > (UINT64_MAX - 9) / 10)
            return false;
        *out = *out * 10 + (uint64_t)(*text - '0');
    }
    return true;
}

static bool index_below(const char *text, size_t end, size_t *out)
{
    uint64_t value;
    if (!number(text, &value) || value >= end)
        return false;
    *out = (size_t)value;
    return true;
}

/* The object with the index in the field, or NULL. */
static struct hf_record_object *object_of(struct hf_record *record, const char *text)
{
    size_t index;
    return index_below(text, record->objects_count, &index) ? &record->objects[index] : NULL;
}

static bool one_of(const char *text, const char *const *words, size_t count, size_t *out)
{
    for (*out = 0; text != NULL && *out < count; ++*out)
        if (strcmp(text, words[*out]) == 0)
            return true;
    return false;
}

/* Makes room for one more entry. Returns false if no process has that many. */
static bool grow(struct hf_record *record, void **array, size_t count, size_t size, size_t most)
{
    if (count == most)
        return false;
    *array = hf_keep_more(&record->keep, *array, count, size);
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool read_process(struct hf_record *record, const struct line *line)
{
    static const char *const moments[] = {"exit", "start", "signal", "asked", "live"};
    static const char *const states[] = {"off", "on", "none", "unknown"};
    size_t moment, state;
    uint64_t signal_number;
    if (line->count != 6 || !number(line->fields[1], &record->pid) ||
        !one_of(line->fields[2], moments, 5, &moment) || !number(line->fields[3], &signal_number) ||
        signal_number > 64 || !one_of(line->fields[5], states, 4, &state))
        return false;
    record->moment = moments[moment];
    record->signal = (int)signal_number;
    record->program = line->fields[4];
    record->routing = (enum hf_record_routing)state;
    return true;
}

static bool read_heap(struct hf_record *record, const struct line *line)
{
    if (line->count != 5 || !number(line->fields[1], &record->reserved))
        return false;
    if (line->fields[2] == NULL)
        return true;
    record->heap_known = true;
    return number(line->fields[2], &record->used) && number(line->fields[3], &record->allocated) &&
           number(line->fields[4], &record->resident);
}

static bool read_object(struct hf_record *record, const struct line *line)
{
    static const char *const roles[] = {"ordinary", "runtime", "linker", "homefree", "satellite"};
    struct hf_record_object object = {.path = line->fields[4]};
    size_t role;
    if (line->count != 6 || object.path == NULL || !number(line->fields[1], &object.namespace) ||
        !one_of(line->fields[2], roles, 5, &role) ||
        !grow(record, (void **)&record->objects, record->objects_count, sizeof object,
              OBJECTS_MOST))
        return false;
    const char *flags = line->fields[3] != NULL ? line->fields[3] : "";
    object.role = (enum hf_record_role)role;
    object.soname = line->fields[5];
    object.maps = strchr(flags, 'm') != NULL;
    object.static_tls = strchr(flags, 's') != NULL;
    object.heap = strchr(flags, 'h') != NULL;
    object.program = strchr(flags, 'p') != NULL;
    object.cpython = strchr(flags, 'y') != NULL;
    object.linked = strchr(flags, 'l') != NULL;
    record->objects[record->objects_count++] = object;
    return true;
}

static void add(struct hf_record_set *set, size_t index)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->indices[i] == index)
            return;
    if (set->count < HF_RECORD_TARGETS)
        set->indices[set->count++] = index;
}

/* The set to which a function belongs. malloc_usable_size belongs to none. */
static struct hf_record_set *set_of(struct hf_record_object *object, const char *function)
{
    if (strncmp(function, "_Zn", 3) == 0)
        return &object->news;
    if (strncmp(function, "_Zd", 3) == 0)
        return &object->deletes;
    if (strcmp(function, "free") == 0)
        return &object->frees;
    static const char *const allocating[] = {"malloc",        "calloc", "memalign",
                                             "aligned_alloc", "valloc", "posix_memalign"};
    size_t found;
    return one_of(function, allocating, 6, &found) ? &object->allocates : NULL;
}

static bool read_slot(struct hf_record *record, const struct line *line)
{
    static const char *const kinds[] = {"call", "data", "word"};
    static const char *const states[] = {"routed", "plain", "refused"};
    size_t kind, state, target;
    struct hf_record_object *object = object_of(record, line->fields[1]);
    if (line->count != 7 || object == NULL || line->fields[2] == NULL ||
        !one_of(line->fields[3], kinds, 3, &kind) || !one_of(line->fields[4], states, 3, &state))
        return false;
    if (line->fields[5] != NULL) {
        if (!index_below(line->fields[5], record->objects_count, &target))
            return false;
        struct hf_record_set *set = set_of(object, line->fields[2]);
        /* The value of a changed variable does not show where the object's calls go. */
        if (set != NULL && !(kind == 2 && state == 2))
            add(set, target);
    }
    object->routed += state == 0;
    object->refused += state == 2;
    if (state != 2)
        return true;
    if (!grow(record, (void **)&record->refusals, record->refusals_count, sizeof *record->refusals,
              ENTRIES_MOST))
        return false;
    record->refusals[record->refusals_count++] =
        (struct hf_record_refusal){(size_t)(object - record->objects), line->fields[2], kinds[kind],
                                   line->fields[6] != NULL ? line->fields[6] : "unknown"};
    return true;
}

static bool read_defines(struct hf_record *record, const struct line *line)
{
    struct hf_record_object *object = object_of(record, line->fields[1]);
    if (line->count != 3 || object == NULL || line->fields[2] == NULL)
        return false;
    object->defines_malloc = object->defines_malloc || strcmp(line->fields[2], "malloc") == 0;
    object->defines_free = object->defines_free || strcmp(line->fields[2], "free") == 0;
    return true;
}

static bool read_reach(struct hf_record *record, const struct line *line)
{
    struct hf_record_object *object = object_of(record, line->fields[1]);
    if (line->count != 3 || object == NULL || line->fields[2] == NULL)
        return false;
    object->reach = line->fields[2];
    return true;
}

static bool read_copy(struct hf_record *record, const struct line *line)
{
    size_t index;
    if (line->count != 5 || line->fields[2] == NULL || line->fields[3] == NULL ||
        !index_below(line->fields[1], record->objects_count, &index) ||
        !grow(record, (void **)&record->copies, record->copies_count, sizeof *record->copies,
              ENTRIES_MOST))
        return false;
    record->copies[record->copies_count++] =
        (struct hf_record_copy){index, line->fields[2], line->fields[3]};
    return true;
}

static bool read_crash(struct hf_record *record, const struct line *line)
{
    struct hf_record_crash *crash = &record->crash;
    crash->known = true;
    crash->object = crash->caller = SIZE_MAX;
    if (line->count != 4)
        return false;
    crash->function = line->fields[2];
    return (line->fields[1] == NULL ||
            index_below(line->fields[1], record->objects_count, &crash->object)) &&
           (line->fields[3] == NULL ||
            index_below(line->fields[3], record->objects_count, &crash->caller));
}

static bool read_freeing(struct hf_record *record, const struct line *line)
{
    record->crash.freeing = record->crash.known;
    return line->count == 1;
}

static bool read_foreign(struct hf_record *record, const struct line *line)
{
    static const char *const states[] = {"known", "home"};
    size_t state;
    uint64_t bytes, leaked;
    struct hf_record_object *object = object_of(record, line->fields[1]);
    if (line->count != 6 || !number(line->fields[5], &leaked) || object == NULL ||
        line->fields[2] == NULL || !number(line->fields[3], &bytes) ||
        !one_of(line->fields[4], states, 2, &state))
        return false;
    if (object->foreign_count == HF_RECORD_FOREIGN)
        return true;
    struct hf_record_foreign *foreign = &object->foreign[object->foreign_count++];
    *foreign = (struct hf_record_foreign){line->fields[2], bytes, state == 1, leaked};
    return true;
}

static bool read_preload(struct hf_record *record, const struct line *line)
{
    record->preload = line->count == 2 ? line->fields[1] : NULL;
    return line->count == 2;
}

static bool read_unseen(struct hf_record *record, const struct line *line)
{
    record->unseen = line->count == 2 ? line->fields[1] : NULL;
    return record->unseen != NULL;
}

static const struct {
    const char *name;
    bool (*read)(struct hf_record *record, const struct line *line);
} kinds_of_lines[] = {
    {"process", read_process}, {"preload", read_preload}, {"heap", read_heap},
    {"object", read_object},   {"defines", read_defines}, {"slot", read_slot},
    {"reach", read_reach},     {"foreign", read_foreign}, {"copy", read_copy},
    {"crash", read_crash},     {"freeing", read_freeing}, {"unseen", read_unseen},
};

static bool read_line(struct hf_record *record, const struct line *line)
{
    for (size_t i = 0; i < sizeof kinds_of_lines / sizeof kinds_of_lines[0]; i++)
        if (strcmp(line->fields[0], kinds_of_lines[i].name) == 0)
            return kinds_of_lines[i].read(record, line);
    return false;
}

int hf_record_read(int descriptor, struct hf_record *out)
{
    *out = (struct hf_record){.why = NULL};
    size_t length = 0;
    int result = read_file(descriptor, out, &length);
    if (result != 0)
        return result;
    uint64_t lines = 0, value;
    bool ended = false;
    for (char *at = out->text, *end = out->text + length; at < end; lines++) {
        struct line line;
        char *newline = memchr(at, '\n', (size_t)(end - at));
        /* Strings end at the first zero byte, so a line that contains one would appear shorter than
         * it is. */
        if (newline == NULL || memchr(at, '\0', (size_t)(newline - at)) != NULL)
            return lines == 0 ? fail(out, -ENOEXEC, "it is not a record of homefree doctor")
                              : damaged(out);
        *newline = '\0';
        if (ended || !split(at, &line))
            return lines == 0 ? fail(out, -ENOEXEC, "it is not a record of homefree doctor")
                              : damaged(out);
        at = newline + 1;
        if (lines == 0) {
            if (strcmp(line.fields[0], HF_DOCTOR_FIRST) != 0 || line.count != 2 ||
                !number(line.fields[1], &value))
                return fail(out, -ENOEXEC, "it is not a record of homefree doctor");
            if (value != HF_DOCTOR_VERSION)
                return fail(out, -ENOEXEC, "a different version of homefree wrote it");
        } else if (strcmp(line.fields[0], "end") == 0) {
            ended = line.count == 2 && number(line.fields[1], &value) && value == lines;
            if (!ended)
                return damaged(out);
        } else if (!read_line(out, &line)) {
            return damaged(out);
        }
    }
    if (lines == 0)
        return fail(out, -ENOEXEC, "it is empty");
    if (!ended || out->moment == NULL || out->objects_count == 0)
        return damaged(out);
    return 0;
}

static void keep(void *finding)
{
    (void)finding;
}

void hf_record_free(struct hf_record *record)
{
    tdestroy(record->findings_tree, keep);
    hf_keep_release(&record->keep);
    free(record->text);
}
