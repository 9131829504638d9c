/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The document of `homefree inspect --json`. See inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include <stdlib.h>
#include <string.h>

/* `archive`: the path of the archive that the object is in, or NULL. */
static void write_library_path(struct hf_json *json, const char *path, const char *archive)
{
    static const char root[] = HF_INSPECTION_ROOT;
    char *shown = NULL;
    const bool inside =
        archive != NULL && path != NULL && strncmp(path, root, sizeof root - 1) == 0;
    if (inside && asprintf(&shown, "%s" HF_MEMBER_MARK "%s", archive, path + sizeof root - 1) < 0)
        shown = NULL;
    hf_json_string(json, "path", inside ? shown : path);
    free(shown);
}

static void write_libraries(struct hf_json *json, const struct hf_inspection *inspection,
                            const char *archive)
{
    static const char *const states[] = {"used", "unused", "not found"};
    hf_json_array(json, "libraries");
    for (size_t i = 0; i < inspection->libraries_count; i++) {
        const struct hf_inspection_library *library = &inspection->libraries[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "name", library->name);
        hf_json_string(json, "state", states[library->state]);
        write_library_path(json, library->path, archive);
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
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_facts(struct hf_json *json, const struct hf_inspection *inspection,
                        const char *archive)
{
    static const char *const kinds[] = {"shared object", "program", "other"};
    const struct hf_findings findings = hf_inspected_findings(inspection);
    hf_json_string(json, "kind", kinds[inspection->kind]);
    hf_json_string(json, "machine", inspection->machine);
    hf_json_string(json, "soname", inspection->soname);
    hf_json_string(json, "module", inspection->module);
    hf_json_object(json, "homefree");
    hf_json_boolean(json, "itself", inspection->homefree_itself);
    hf_json_boolean(json, "linked", inspection->homefree_linked);
    hf_json_string(json, "needed", inspection->homefree_needed);
    hf_json_close(json);
    hf_json_boolean(json, "allocates", hf_inspection_allocates(inspection));
    hf_json_object(json, "tls");
    hf_json_unsigned(json, "bytes", inspection->tls_size);
    hf_json_boolean(json, "static", inspection->tls_static);
    hf_json_close(json);
    hf_json_unsigned(json, "imports", inspection->imports);
    hf_json_unsigned(json, "exports", inspection->exports);
    write_libraries(json, inspection, archive);
    write_allocators(json, inspection);
    hf_findings_write(json, &findings);
}

static void write_object(struct hf_json *json, const struct hf_inspected *inspected,
                         const struct hf_object *object)
{
    const char *container =
        object->container == SIZE_MAX ? NULL : inspected->containers[object->container].name;
    hf_json_object(json, NULL);
    hf_json_string(json, "path", object->path);
    hf_json_string(json, "container", container);
    hf_json_string(json, "member", object->inner);
    hf_json_string(json, "error", object->error);
    if (object->error == NULL)
        write_facts(json, &object->inspection, object->inner != NULL ? container : NULL);
    hf_json_close(json);
}

static void write_container(struct hf_json *json, const struct hf_container *container)
{
    static const char *const kinds[] = {[HF_CONTAINER_DIRECTORY] = "directory",
                                        [HF_CONTAINER_ARCHIVE] = "archive",
                                        [HF_CONTAINER_PACKAGE] = "package"};
    hf_json_object(json, NULL);
    hf_json_string(json, "name", container->name);
    hf_json_string(json, "kind", kinds[container->kind]);
    hf_json_unsigned(json, "objects", container->objects);
    hf_json_unsigned(json, "clean", container->clean);
    hf_json_unsigned(json, "failed", container->failed);
    hf_json_unsigned(json, "left_out", container->skipped);
    hf_json_close(json);
}

bool hf_inspected_write_json(FILE *out, void *context)
{
    const struct hf_inspected *inspected = context;
    struct hf_json json;
    hf_json_begin(&json, out, hf_inspect_table.command, hf_inspect_table.format);
    hf_json_array(&json, "files");
    for (size_t i = 0; i < inspected->objects_count; i++)
        write_object(&json, inspected, &inspected->objects[i]);
    hf_json_close(&json);
    hf_json_array(&json, "containers");
    for (size_t i = 0; i < inspected->containers_count; i++)
        write_container(&json, &inspected->containers[i]);
    hf_json_close(&json);
    hf_json_object(&json, "summary");
    hf_json_unsigned(&json, "files", inspected->objects_count);
    hf_rules_totals(&json, &inspected->totals);
    hf_json_close(&json);
    hf_json_finish(&json);
    return true;
}
