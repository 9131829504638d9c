/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include "loader/command/command.h"
#include "loader/command/grown.h"
#include "loader/command/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char who[] = "homefree inspect";

_Static_assert(HF_RULE_COUNT <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
const struct hf_rule_table hf_inspect_table = {"inspect", 1, hf_rules, HF_RULE_COUNT};

/* ---- looking at an object ------------------------------------------------------------------- */

static int look_at_adoption(const char *path, const struct hf_inspection_files *files,
                            struct hf_inspection *out)
{
    struct hf_elf elf;
    int result = hf_inspection_open(&elf, path, files);
    if (result != 0)
        return result;
    result = hf_inspection_look_at_adoption(out, &elf, path);
    hf_elf_close(&elf);
    return result;
}

/* Inspects a file of `files`; NULL: of the file system. Returns NULL, or why it cannot
 * be inspected; hf_inspection_free() is required in either case. */
static const char *look(const struct hf_inspected_wishes *wishes, const char *path,
                        const struct hf_inspection_files *files, struct hf_inspection *out)
{
    int result = files != NULL ? hf_inspect_among(path, files, out) : hf_inspect(path, out);
    if (result == 0 && wishes->adoption && out->allocators_count > 0)
        result = look_at_adoption(path, files, out);
    if (result == 0 && wishes->require_homefree)
        result = hf_inspection_require_homefree(out);
    if (result == 0)
        return NULL;
    /* The reader explains what is wrong with a file's contents, the system why it cannot be
     * read. */
    const bool readers = result == -ENOEXEC || result == -EISDIR || result == -ENOMEM;
    return readers && out->why != NULL ? out->why : strerror(-result);
}

/* ---- an object in the document -------------------------------------------------------------- */

static void write_libraries(struct hf_json *json, const struct hf_inspection *inspection)
{
    static const char *const states[] = {"used", "unused", "not found", NULL};
    hf_json_array(json, "libraries");
    for (size_t i = 0; i < inspection->libraries_count; i++) {
        const struct hf_inspection_library *library = &inspection->libraries[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", library->name);
        hf_json_string(json, "state", states[library->state]);
        hf_json_string(json, "path", library->path);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_allocators(struct hf_json *json, const struct hf_inspection *inspection)
{
    hf_json_array(json, "allocators");
    for (size_t i = 0; i < inspection->allocators_count; i++) {
        const struct hf_inspection_allocator *allocator = &inspection->allocators[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", hf_allocator_name(allocator->allocator));
        hf_json_string(json, "by", allocator->by_string ? "string" : "symbol");
        hf_json_string(json, "evidence", allocator->evidence);
        hf_json_string(json, "prefix", allocator->by_string ? NULL : allocator->prefix);
        hf_json_boolean(json, "exported", allocator->exported);
        hf_json_boolean(json, "published", allocator->published);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_texts(struct hf_json *json, const char *name, const char *const *texts,
                        size_t count)
{
    hf_json_array(json, name);
    for (size_t i = 0; i < count; i++)
        hf_json_string(json, NULL, texts[i]);
    hf_json_close(json);
}

static void write_members(struct hf_json *json, const struct hf_inspection *inspection)
{
    hf_json_array(json, "members");
    for (size_t i = 0; i < inspection->members_count; i++) {
        const struct hf_inspection_member *member = &inspection->members[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", member->name);
        hf_json_string(json, "release", member->release);
        write_texts(json, "offers", member->offers, member->offers_count);
        write_texts(json, "flags", member->flags, member->flags_count);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_facts(struct hf_json *json, const struct hf_inspection *inspection)
{
    static const char *const kinds[] = {"shared object", "program", "other"};
    hf_json_string(json, "kind", kinds[inspection->kind]);
    hf_json_string(json, "machine", inspection->machine);
    hf_json_string(json, "soname", inspection->soname);
    hf_json_string(json, "module", inspection->module);
    hf_json_object(json, "homefree");
    hf_json_boolean(json, "itself", inspection->homefree_itself);
    hf_json_boolean(json, "linked", inspection->homefree_linked);
    hf_json_string(json, "needed", inspection->homefree_needed);
    hf_json_close(json);
    hf_json_string(json, "glibc_needed", inspection->glibc_needed);
    hf_json_boolean(json, "allocates", hf_inspection_allocates(inspection));
    hf_json_object(json, "tls");
    hf_json_unsigned(json, "bytes", inspection->tls_size);
    hf_json_boolean(json, "static", inspection->tls_static);
    hf_json_close(json);
    hf_json_unsigned(json, "imports", inspection->imports);
    hf_json_unsigned(json, "exports", inspection->exports);
    write_libraries(json, inspection);
    write_allocators(json, inspection);
    write_members(json, inspection);
    hf_json_array(json, "findings");
    for (size_t i = 0; i < inspection->findings_count; i++)
        hf_rules_write(json, &hf_inspect_table, &inspection->findings[i]);
    hf_json_close(json);
}

/* Writes the members of the open object. */
static void write_object(struct hf_json *json, const char *path, const char *error,
                         const struct hf_inspection *inspection)
{
    hf_json_string(json, "path", path);
    hf_json_string(json, "container", NULL);
    hf_json_string(json, "member", NULL);
    hf_json_string(json, "error", error);
    if (error == NULL)
        write_facts(json, inspection);
}

/* ---- the document of files ------------------------------------------------------------------ */

struct printed {
    const struct hf_inspected_wishes *wishes;
    char *const *paths;
    const bool *fails;
    int status;
};

static bool print(FILE *out, void *context)
{
    struct printed *printed = context;
    struct hf_rule_totals totals = {.failed = 0};
    struct hf_json json;
    size_t count = 0;
    hf_json_begin(&json, out, hf_inspect_table.command, hf_inspect_table.format);
    hf_json_array(&json, "files");
    for (; printed->paths[count] != NULL; count++) {
        const char *path = printed->paths[count];
        struct hf_inspection inspection;
        hf_progress(who, "%zu objects, %.50s", count, path);
        const char *error = look(printed->wishes, path, NULL, &inspection);
        for (size_t i = 0; error == NULL && i < inspection.findings_count; i++)
            hf_rules_count(&totals, &hf_inspect_table, inspection.findings[i].rule);
        if (error != NULL) {
            totals.failed++;
            hf_progress_end();
            hf_command_complain(who, "cannot inspect '%s': %s", path, error);
        }
        hf_json_object(&json, NULL);
        write_object(&json, path, error, &inspection);
        hf_json_close(&json);
        hf_inspection_free(&inspection);
    }
    hf_progress_end();
    hf_json_close(&json);
    hf_json_array(&json, "containers");
    hf_json_close(&json);
    hf_json_object(&json, "summary");
    hf_json_unsigned(&json, "files", count);
    hf_rules_totals(&json, &totals);
    hf_json_finish(&json);
    for (size_t i = 0; i < HF_RULE_COUNT; i++)
        if (totals.found[i] && printed->fails[i])
            printed->status = HF_EXIT_FINDINGS;
    if (totals.failed > 0)
        printed->status = HF_EXIT_FAILED;
    return true;
}

int hf_inspected_print(const struct hf_inspected_wishes *wishes, char *const *paths,
                       const bool *fails)
{
    struct printed printed = {wishes, paths, fails, HF_EXIT_CLEAN};
    const int result = hf_command_compose(who, "-", print, &printed);
    return result == HF_EXIT_CLEAN ? printed.status : result;
}

/* ---- objects that Python lists -------------------------------------------------------------- */

struct listed {
    char *path;
    uint64_t offset, size;
    bool contained; /* in the file `contents` */
};

struct list {
    struct listed *objects;
    size_t count;
    int contents;
    const struct listed *current; /* the one that is inspected */
};

/* Reads one object of the list. Returns false at its end. */
static bool read_object(struct listed *out)
{
    char *fields[3] = {NULL, NULL, NULL};
    size_t room = 0, count = 0;
    while (count < 3 && getdelim(&fields[count], &room, '\0', stdin) > 0) {
        room = 0;
        count++;
    }
    const bool whole = count == 3;
    if (whole)
        *out = (struct listed){.path = fields[0],
                               .offset = strtoull(fields[1], NULL, 10),
                               .size = strtoull(fields[2], NULL, 10),
                               .contained = fields[1][0] != '\0'};
    else
        free(fields[0]);
    free(fields[1]);
    free(fields[2]);
    return whole;
}

static bool read_list(struct list *list)
{
    struct listed object;
    while (read_object(&object)) {
        struct listed *objects = hf_grown(list->objects, list->count, sizeof *list->objects);
        if (objects == NULL) {
            free(object.path);
            return false;
        }
        list->objects = objects;
        list->objects[list->count++] = object;
    }
    return true;
}

static int has_path(const void *path, const void *object)
{
    return strcmp(path, ((const struct listed *)object)->path);
}

static int open_listed(struct hf_elf *elf, const char *path, const void *context)
{
    const struct list *list = context;
    const struct listed *found = list->current; /* there may be two of its path */
    if (strcmp(found->path, path) != 0)
        found = bsearch(path, list->objects, list->count, sizeof *list->objects, has_path);
    return found != NULL ? hf_elf_open_range(elf, list->contents, found->offset, found->size)
                         : -ENOENT;
}

/* What else the findings depend on; null if that is not all known. */
static void write_read(struct hf_json *json, const struct hf_inspection *inspection)
{
    if (!inspection->read_all) {
        hf_json_string(json, "read", NULL);
        return;
    }
    write_texts(json, "read", inspection->read, inspection->read_count);
    write_texts(json, "missed", inspection->missed, inspection->missed_count);
}

int hf_inspected_answer(const struct hf_inspected_wishes *wishes, int contents)
{
    struct list list = {.contents = contents};
    const struct hf_inspection_files here = {
        .in_root = wishes->root >= 0, .root = wishes->root, .without_use = wishes->without_use};
    struct hf_inspection_files files = here;
    files.open = open_listed;
    files.context = &list;
    int status = read_list(&list) ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
    for (size_t i = 0; i < list.count && status == HF_EXIT_CLEAN; i++) {
        const struct listed *object = list.current = &list.objects[i];
        struct hf_inspection inspection;
        struct hf_json json;
        const char *error =
            look(wishes, object->path, object->contained ? &files : &here, &inspection);
        hf_json_begin_plain(&json, stdout, true);
        write_object(&json, object->path, error, &inspection);
        write_read(&json, &inspection);
        hf_json_finish(&json);
        hf_inspection_free(&inspection);
        if (fflush(stdout) != 0)
            status = HF_EXIT_FAILED;
    }
    for (size_t i = 0; i < list.count; i++)
        free(list.objects[i].path);
    free(list.objects);
    return status;
}
