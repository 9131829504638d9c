/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See doctor_show.h. Owns nothing. Paths and reasons come from outside and are printed with text.h.
 */
#include "loader/command/doctor/doctor_show.h"

#include "loader/command/text.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(HF_DOCTOR_RULE_COUNT <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
const struct hf_rule_table hf_doctor_table = {"doctor", 1, hf_doctor_rules, HF_DOCTOR_RULE_COUNT};

/* ---- the table ------------------------------------------------------------------------------ */

static void print_process(FILE *out, const struct hf_record *record, bool coloured)
{
    static const struct {
        const char *name, *text;
    } moments[] = {
        {"exit", "at its end"},  {"start", "at its start"}, {"signal", "when a signal ended it"},
        {"asked", "on request"}, {"live", "while it runs"},
    };
    fputs(hf_text_style(coloured, HF_TEXT_BOLD), out);
    hf_text_print(out, record->program != NULL ? record->program : "(unnamed)");
    fprintf(out, "%s, process %" PRIu64, hf_text_style(coloured, HF_TEXT_PLAIN), record->pid);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++)
        if (strcmp(record->moment, moments[i].name) == 0)
            fprintf(out, ", %s", moments[i].text);
    fprintf(out, "\n\nAllocators:\n");
}

/* One allocator of an object, of which there may be several. */
struct holding {
    const struct hf_record_object *object;
    const char *name; /* NULL: unknown */
    const struct hf_record_foreign *foreign;
    bool is_inside;   /* one of those of hf_record_inside() */
    bool is_together; /* from outside it cannot be seen which of several has mapped a page */
};

/* Returns false if the object has no such allocator. */
static bool find_holding(const struct hf_record *record, size_t object, size_t index,
                         struct holding *out)
{
    *out = (struct holding){.object = &record->objects[object]};
    out->name = hf_record_inside(out->object, index, &out->foreign);
    out->is_inside = out->name != NULL;
    out->is_together = strcmp(record->moment, "live") == 0 && out->object->foreign_count > 1;
    if (index == 0) {
        out->name = hf_record_allocator(out->object);
        return true;
    }
    /* The others that CPython's file holds are not in use. */
    return out->is_inside && (out->foreign != NULL || !out->object->cpython);
}

/* The names of foreign allocators come from the process, like everything else in its record. */
static void print_allocator(FILE *out, const struct hf_record *record,
                            const struct holding *holding)
{
    enum { NAME_WIDTH = 10 };
    const struct hf_record_object *object = holding->object;
    const char *name = holding->name != NULL ? holding->name : "unknown";
    const size_t users = object->users, length = strlen(name);
    char bytes[HF_TEXT_BYTES];
    fputs("  ", out);
    hf_text_print(out, name);
    fprintf(out, "%*s ", length < NAME_WIDTH ? (int)(NAME_WIDTH - length) : 0, "");
    hf_text_print(out, object->path);
    if (object->heap) {
        fputs(": the heap", out);
        if (record->heap_known)
            fprintf(out, ", %s in blocks", hf_text_bytes(record->allocated, bytes));
    } else if (object->role == HF_RECORD_HOMEFREE) {
        fputs(": forwards to the heap", out);
    } else if (users > 0) {
        fprintf(out, ": used by %zu object%s", users, users == 1 ? "" : "s");
    } else if (holding->foreign != NULL && holding->foreign->home) {
        fputs(": its own; homefree sends its pointers home", out);
    } else if (holding->is_inside) {
        fputs(": its own", out);
    } else {
        fputs(": used by no object", out);
    }
    if (holding->foreign != NULL && !holding->is_together && holding->foreign->bytes != 0)
        fprintf(out, ", %s mapped", hf_text_bytes(holding->foreign->bytes, bytes));
    fputc('\n', out);
}

/* What the allocators of an object have mapped. */
static uint64_t mapped_by(const struct hf_record_object *object)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < object->foreign_count; i++)
        bytes += object->foreign[i].bytes;
    return bytes;
}

static void print_allocators(FILE *out, const struct hf_record *record, size_t object)
{
    struct holding holding;
    for (size_t i = 0; find_holding(record, object, i, &holding); i++)
        print_allocator(out, record, &holding);
    char bytes[HF_TEXT_BYTES];
    if (holding.is_together && mapped_by(holding.object) != 0)
        fprintf(out, "             %s mapped by these together\n",
                hf_text_bytes(mapped_by(holding.object), bytes));
}

static bool is_allocator(const struct hf_record *record, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    if (object->role == HF_RECORD_LINKER || object->role == HF_RECORD_SATELLITE)
        return false;
    return object->role == HF_RECORD_HOMEFREE || object->foreign_count > 0 ||
           object->allocators_count > 0 || (object->defines_malloc && object->defines_free) ||
           object->users > 0;
}

static void print_set(FILE *out, const struct hf_record *record, const struct hf_record_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct hf_record_object *object = &record->objects[set->indices[i]];
        const char *known = hf_record_allocator(object);
        fputs(i == 0 ? "" : ", ", out);
        hf_text_print(out, known != NULL ? known : basename(object->path));
    }
    if (set->count == 0)
        fputc('-', out);
}

static bool is_empty(const struct hf_record_object *object)
{
    return object->allocates.count + object->frees.count + object->news.count +
               object->deletes.count ==
           0;
}

/* Whether an object is like most: it allocates from libc, frees to libc, and is fully routed. */
static bool is_usual(const struct hf_record *record, const struct hf_record_object *object)
{
    const struct hf_record_set *sets[] = {&object->allocates, &object->frees};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sets[s]->count; i++) {
            if (!hf_record_is_libc(&record->objects[sets[s]->indices[i]]))
                return false;
        }
    return object->refused == 0;
}

static void print_objects(FILE *out, const struct hf_record *record, bool all)
{
    size_t usual = 0, none = 0, shown = 0;
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        if (object->role >= HF_RECORD_LINKER)
            continue;
        none += is_empty(object);
        usual += !is_empty(object) && is_usual(record, object);
        if (!all && (is_empty(object) || is_usual(record, object)))
            continue;
        if (shown++ == 0)
            fputs("\nObjects (whose malloc, whose free; slots routed, slots refused):\n", out);
        fputs("  ", out);
        hf_text_print(out, object->path);
        if (object->namespace != 0)
            fprintf(out, " (namespace %" PRIu64 ")", object->namespace);
        fputs(": ", out);
        print_set(out, record, &object->allocates);
        fputs(", ", out);
        print_set(out, record, &object->frees);
        fprintf(out, "; %zu, %zu\n", object->routed, object->refused);
    }
    if (!all)
        fprintf(out,
                "\n%zu %sobject%s libc's malloc and free; %zu use%s no allocator by name "
                "(--all lists them).\n",
                usual, shown > 0 ? "other " : "", usual == 1 ? " uses" : "s use", none,
                none == 1 ? "s" : "");
}

static void print_routing(FILE *out, const struct hf_record *record)
{
    if (record->unseen != NULL) {
        fputs("\nNot seen: ", out);
        hf_text_print(out, record->unseen);
        fputs(".\n", out);
    }
    if (record->routing == HF_RECORD_NO_HOMEFREE) {
        fprintf(out, "\nRouting: none; homefree is not in this process. %zu objects.\n\n",
                record->objects_count);
        return;
    }
    if (record->routing == HF_RECORD_UNKNOWN) {
        fprintf(out, "\nRouting: unknown; %zu objects.\n\n", record->objects_count);
        return;
    }
    size_t routed = 0, refused = 0, beyond = 0;
    for (size_t i = 0; i < record->objects_count; i++) {
        routed += record->objects[i].routed;
        refused += record->objects[i].refused;
        beyond += record->objects[i].reach != NULL &&
                  record->objects[i].role != HF_RECORD_LINKER; /* as out-of-reach names them */
    }
    fprintf(out,
            "\nRouting: %s; %zu objects, %zu slots look up the owner first, %zu were left alone, "
            "%zu object%s out of reach.\n\n",
            record->routing == HF_RECORD_ON ? "on" : "off", record->objects_count, routed, refused,
            beyond, beyond == 1 ? " is" : "s are");
}

static struct hf_finding finding_at(const void *context, size_t index)
{
    const struct hf_record_finding *finding = &((const struct hf_record *)context)->findings[index];
    const bool all = finding->count <= HF_INSPECTION_NAMES_MAX;
    return (struct hf_finding){
        .rule = finding->rule,
        .message = finding->message,
        .names = (const char *const *)finding->names,
        .names_count = all ? finding->count : HF_INSPECTION_NAMES_MAX,
        .count = finding->count,
    };
}

struct hf_findings hf_doctor_findings(const struct hf_record *record)
{
    return (struct hf_findings){
        .table = &hf_doctor_table,
        .count = record->findings_count,
        .get = finding_at,
        .context = record,
    };
}

void hf_doctor_print(FILE *out, const struct hf_record *record, bool all, bool coloured)
{
    const struct hf_findings findings = hf_doctor_findings(record);
    print_process(out, record, coloured);
    for (size_t i = 0; i < record->objects_count; i++)
        if (is_allocator(record, i))
            print_allocators(out, record, i);
    print_objects(out, record, all);
    print_routing(out, record);
    fputs(findings.count == 0 ? "Findings: none.\n" : "Findings:\n", out);
    hf_findings_print(out, &findings, coloured);
    fputc('\n', out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

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
        if (strcmp(record->moment, "live") == 0)
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

static void write_allocator(struct hf_json *json, const struct holding *holding)
{
    const struct hf_record_object *object = holding->object;
    hf_json_object(json, NULL);
    hf_json_string(json, "name", holding->name);
    hf_json_string(json, "object", object->path);
    hf_json_unsigned(json, "users", object->users);
    hf_json_boolean(json, "heap", object->heap);
    hf_json_boolean(json, "home", holding->foreign != NULL && holding->foreign->home);
    if (holding->is_together)
        hf_json_string(json, "mapped", NULL);
    else
        hf_json_unsigned(json, "mapped", holding->foreign != NULL ? holding->foreign->bytes : 0);
    hf_json_unsigned(json, "mapped_in_object", mapped_by(object));
    hf_json_close(json);
}

static void write_allocators(struct hf_json *json, const struct hf_record *record)
{
    struct holding holding;
    hf_json_array(json, "allocators");
    for (size_t i = 0; i < record->objects_count; i++)
        for (size_t n = 0; is_allocator(record, i) && find_holding(record, i, n, &holding); n++)
            write_allocator(json, &holding);
    hf_json_close(json);
}

void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record)
{
    const struct hf_findings findings = hf_doctor_findings(record);
    hf_json_object(json, NULL);
    hf_json_unsigned(json, "pid", record->pid);
    hf_json_string(json, "program", record->program);
    hf_json_string(json, "recorded", record->moment);
    if (record->routing == HF_RECORD_UNKNOWN)
        hf_json_string(json, "routing", NULL);
    else
        hf_json_boolean(json, "routing", record->routing == HF_RECORD_ON);
    if (strcmp(record->moment, "live") == 0) {
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
    hf_findings_write(json, &findings);
    hf_json_close(json);
}
