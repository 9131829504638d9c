/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See doctor_document.h. Owns nothing. Names, paths and reasons come from outside.
 */
#include "loader/command/doctor/doctor_document.h"

#include <string.h>

_Static_assert(HF_DOCTOR_RULE_COUNT <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
const struct hf_rule_table hf_doctor_table = {"doctor", 1, hf_doctor_rules, HF_DOCTOR_RULE_COUNT};

static bool is_live(const struct hf_record *record)
{
    return strcmp(record->moment, "live") == 0;
}

/* What the allocators of an object have mapped. */
static uint64_t mapped_by(const struct hf_record_object *object)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < object->foreign_count; i++)
        bytes += object->foreign[i].bytes;
    return bytes;
}

static bool is_allocator(const struct hf_record_object *object)
{
    if (object->role == HF_RECORD_LINKER || object->role == HF_RECORD_SATELLITE)
        return false;
    return object->role == HF_RECORD_HOMEFREE || object->foreign_count > 0 ||
           object->allocators_count > 0 || (object->defines_malloc && object->defines_free) ||
           object->users > 0;
}

static void write_set(struct hf_json *json, const char *key, const struct hf_record *record,
                      const struct hf_record_set *set)
{
    hf_json_array(json, key);
    for (size_t i = 0; i < set->count; i++)
        hf_json_string(json, NULL, record->objects[set->indices[i]].path);
    hf_json_close(json);
}

static void write_objects(struct hf_json *json, const struct hf_record *record)
{
    static const char *const roles[] = {"ordinary", "runtime", "linker", "homefree", "satellite"};
    hf_json_array(json, "objects");
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "path", object->path);
        hf_json_string(json, "soname", object->soname);
        hf_json_unsigned(json, "namespace", object->namespace);
        hf_json_string(json, "role", roles[object->role]);
        hf_json_boolean(json, "static_tls", object->static_tls);
        if (is_live(record))
            hf_json_boolean(json, "linked", object->linked);
        write_set(json, "malloc", record, &object->allocates);
        write_set(json, "free", record, &object->frees);
        write_set(json, "new", record, &object->news);
        write_set(json, "delete", record, &object->deletes);
        hf_json_unsigned(json, "routed", object->routed);
        hf_json_unsigned(json, "refused", object->refused);
        hf_json_string(json, "out_of_reach", object->reach);
        hf_json_close(json);
    }
    hf_json_close(json);
}

/* One of an object's allocators. NULL: unknown, or not one of those that homefree knows. */
static void write_allocator(struct hf_json *json, const struct hf_record *record,
                            const struct hf_record_object *object, const char *name,
                            const struct hf_record_foreign *foreign)
{
    hf_json_object(json, NULL);
    hf_json_string(json, "name", name);
    hf_json_string(json, "object", object->path);
    hf_json_unsigned(json, "users", object->users);
    hf_json_boolean(json, "heap", object->heap);
    hf_json_boolean(json, "home", foreign != NULL && foreign->home);
    /* From outside it cannot be seen which of several has mapped a page. */
    if (is_live(record) && object->foreign_count > 1)
        hf_json_string(json, "mapped", NULL);
    else
        hf_json_unsigned(json, "mapped", foreign != NULL ? foreign->bytes : 0);
    hf_json_unsigned(json, "mapped_in_object", mapped_by(object));
    hf_json_close(json);
}

static void write_allocators(struct hf_json *json, const struct hf_record *record)
{
    hf_json_array(json, "allocators");
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        const struct hf_record_foreign *foreign;
        const char *name = hf_record_inside(object, 0, &foreign);
        if (!is_allocator(object))
            continue;
        write_allocator(json, record, object, hf_record_allocator(object), foreign);
        for (size_t n = 1; name != NULL; n++) {
            name = hf_record_inside(object, n, &foreign);
            /* The others that CPython's file holds are not in use. */
            if (name != NULL && (foreign != NULL || !object->cpython))
                write_allocator(json, record, object, name, foreign);
        }
    }
    hf_json_close(json);
}

void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record,
                          struct hf_rule_totals *totals)
{
    hf_json_object(json, NULL);
    hf_json_unsigned(json, "pid", record->pid);
    hf_json_string(json, "program", record->program);
    hf_json_string(json, "recorded", record->moment);
    if (record->routing == HF_RECORD_UNKNOWN)
        hf_json_string(json, "routing", NULL);
    else
        hf_json_boolean(json, "routing", record->routing == HF_RECORD_ON);
    if (is_live(record)) {
        hf_json_boolean(json, "homefree", record->routing != HF_RECORD_NO_HOMEFREE);
        hf_json_string(json, "unseen", record->unseen);
    }
    hf_json_string(json, "preload", record->preload);
    hf_json_object(json, "heap");
    hf_json_unsigned(json, "reserved", record->reserved);
    if (record->heap_known) {
        hf_json_unsigned(json, "used", record->used);
        hf_json_unsigned(json, "allocated", record->allocated);
        hf_json_unsigned(json, "resident", record->resident);
    }
    hf_json_close(json);
    write_allocators(json, record);
    write_objects(json, record);
    hf_json_array(json, "findings");
    for (size_t i = 0; i < record->findings_count; i++) {
        hf_rules_write(json, &hf_doctor_table, record->findings[i]);
        hf_rules_count(totals, &hf_doctor_table, record->findings[i]->rule);
    }
    hf_json_close(json);
    hf_json_close(json);
}
