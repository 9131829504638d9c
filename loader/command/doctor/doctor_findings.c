/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applies the rules of loader/record/process_record.def to the facts in a record. Owns nothing
 * between calls; see doctor_record.h.
 *
 * An object's file is read only if the object may contain an allocator: it maps pages, or defines
 * an allocator's functions. A file that cannot be read adds nothing.
 */
#include "loader/command/doctor/doctor_record.h"

#include "alloc/base/crash_signals.h"
#include "loader/command/live/live_object.h"
#include "loader/command/text.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const struct hf_record *record, size_t index)
{
    return basename(record->objects[index].path);
}

/* ---- adding findings ------------------------------------------------------------------------ */

static int compare_findings(const void *left, const void *right)
{
    const struct hf_inspection_finding *a = left, *b = right;
    return a->rule != b->rule ? (a->rule > b->rule) - (a->rule < b->rule)
                              : strcmp(a->message, b->message);
}

/* Finds or adds the finding with that rule and message. */
__attribute__((format(printf, 3, 4))) static struct hf_inspection_finding *
find(struct hf_record *record, enum hf_doctor_rule rule, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = hf_text_format(format, arguments);
    va_end(arguments);
    if (message == NULL)
        hf_keep_out_of_memory();
    const struct hf_inspection_finding wanted = {.rule = rule, .message = message};
    struct hf_inspection_finding *const *found =
        tfind(&wanted, &record->findings_tree, compare_findings);
    if (found == NULL) {
        struct hf_inspection_finding *finding = hf_keep_bytes(&record->keep, sizeof *finding);
        finding->rule = rule;
        finding->message = hf_keep_text(&record->keep, message);
        record->findings = hf_keep_more(&record->keep, record->findings, record->findings_count,
                                        sizeof *record->findings);
        record->findings[record->findings_count++] = finding;
        found = tsearch(finding, &record->findings_tree, compare_findings);
        if (found == NULL)
            hf_keep_out_of_memory();
    }
    free(message);
    return *found;
}

/* Adds a name, which is the record's. */
static void name(struct hf_inspection_finding *finding, const char *text)
{
    if (finding->names_count < HF_INSPECTION_NAMES_MAX)
        finding->names[finding->names_count++] = text;
    finding->count++;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* hf_inspection_free() is required after success. */
static bool inspect(const struct hf_record *record, const char *path,
                    struct hf_inspection *inspection)
{
    struct hf_live_elf file;
    if (record->process == NULL) {
        if (hf_inspect(path, inspection) == 0)
            return true;
        hf_inspection_free(inspection);
        return false;
    }
    if (hf_live_elf_open_path(record->process, path, &file) != 0)
        return false;
    const bool good = hf_inspect_elf(&file.elf, path, inspection) == 0;
    if (!good)
        hf_inspection_free(inspection);
    hf_live_elf_close(&file);
    return good;
}

static void look_into(const struct hf_record *record, struct hf_record_object *object)
{
    struct hf_inspection inspection;
    const size_t capacity = sizeof object->allocators / sizeof object->allocators[0];
    if (inspect(record, object->path, &inspection)) {
        object->inspected = true;
        /* homefree's own extension contains the table of known allocators, and therefore their
         * names. */
        const bool ours = inspection.homefree_linked && inspection.module != NULL &&
                          strcmp(inspection.module, "_homefree") == 0;
        for (size_t i = 0; !ours && i < inspection.allocators_count && i < capacity; i++) {
            object->allocators[i].allocator = inspection.allocators[i].allocator;
            object->allocators[i].exported = inspection.allocators[i].exported;
            object->allocators_count++;
        }
        hf_inspection_free(&inspection);
    }
}

static void look_into_files(struct hf_record *record)
{
    for (size_t i = 0; i < record->objects_count; i++) {
        struct hf_record_object *object = &record->objects[i];
        if (record->process != NULL && hf_live_takes_too_long(record->process))
            return;
        if (object->role == HF_RECORD_ORDINARY &&
            (object->maps || object->defines_malloc || object->defines_free))
            look_into(record, object);
    }
}

/* ---- rules ---------------------------------------------------------------------------------- */

static void find_failure(struct hf_record *record, struct hf_record_end end)
{
    if (end.status != 0)
        find(record, HF_DOCTOR_RULE_FAILED, "the program exited with status %d", end.status);
    else if (end.signal != 0)
        find(record, HF_DOCTOR_RULE_FAILED, "%s ended the program", hf_record_signal(end.signal));
}

/* The allocator in an object that no other object calls by name. */
static const char *hidden_allocator(const struct hf_record *record, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    if (object->role != HF_RECORD_ORDINARY || object->cpython || record->objects[index].users > 0)
        return NULL;
    return hf_record_allocator(object);
}

static bool died_inside(const struct hf_record *record, struct hf_record_end end, size_t index)
{
    return hf_is_crash(end.signal) && record->crash.freeing && record->crash.object == index &&
           hidden_allocator(record, index) != NULL;
}

static void find_death_inside(struct hf_record *record, struct hf_record_end end)
{
    const size_t index = record->crash.object;
    if (index == SIZE_MAX || !died_inside(record, end, index))
        return;
    const char *function = record->crash.function;
    const size_t caller = record->crash.caller;
    name(find(record, HF_DOCTOR_RULE_DIED_INSIDE, "%s hit an object that contains %s%s%s%s%s",
              hf_record_signal(end.signal), hidden_allocator(record, index),
              function != NULL ? ", in " : "", function != NULL ? function : "",
              caller != SIZE_MAX ? ", called from " : "",
              caller != SIZE_MAX ? name_of(record, caller) : ""),
         record->objects[index].path);
}

static void find_death(struct hf_record *record, struct hf_record_end end)
{
    if (!hf_is_crash(end.signal)) {
        find_failure(record, end);
        return;
    }
    find(record, HF_DOCTOR_RULE_DIED, "%s ended the process", hf_record_signal(end.signal));
    find_death_inside(record, end);
}

/* Whether a routed free() returns memory of these objects to its owner. */
static bool comes_home(const struct hf_record *record, const struct hf_record_set *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct hf_record_object *object = &record->objects[from->indices[i]];
        if (object->role != HF_RECORD_HOMEFREE && !hf_record_home(object))
            return false;
    }
    return true;
}

static void find_elsewhere(struct hf_record *record, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    const struct {
        const struct hf_record_set *from, *to;
        const char *allocating, *freeing;
    } pairs[] = {
        {&object->allocates, &object->frees, "malloc", "free"},
        {&object->news, &object->deletes, "operator new", "operator delete"},
    };
    for (size_t p = 0; p < 2; p++) {
        bool apart = pairs[p].from->count > 0 && pairs[p].to->count > 0;
        for (size_t i = 0; i < pairs[p].from->count; i++)
            apart = apart && !hf_record_has(pairs[p].to, pairs[p].from->indices[i]);
        if (!apart || (object->refused == 0 && comes_home(record, pairs[p].from)))
            continue;
        name(find(record, HF_DOCTOR_RULE_FREE_ELSEWHERE, "%s comes from %s, %s from %s",
                  pairs[p].allocating, name_of(record, pairs[p].from->indices[0]), pairs[p].freeing,
                  name_of(record, pairs[p].to->indices[0])),
             object->path);
    }
}

/* CPython's own allocators do no harm in it: pymalloc, and the mimalloc of 3.13 and later. */
static void find_embedded(struct hf_record *record, struct hf_record_end end, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    if (object->role != HF_RECORD_ORDINARY || object->cpython || record->objects[index].users > 0 ||
        died_inside(record, end, index))
        return;
    const struct hf_record_foreign *foreign;
    const char *allocator;
    for (size_t i = 0; (allocator = hf_record_inside(object, i, &foreign)) != NULL; i++) {
        char leaked[64] = "";
        if (foreign != NULL && foreign->leaked != 0)
            snprintf(leaked, sizeof leaked, ", of which %" PRIu64 " blocks were leaked",
                     foreign->leaked);
        name(find(record,
                  foreign != NULL && foreign->home ? HF_DOCTOR_RULE_FOREIGN
                                                   : HF_DOCTOR_RULE_EMBEDDED,
                  "contains %s%s", allocator, leaked),
             object->path);
    }
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void keep_name(void *name)
{
    (void)name; /* the record's */
}

/* The names of the files in LD_PRELOAD, without their directories: a tree of tsearch(3). */
static void *read_preloaded(struct hf_record *record)
{
    void *names = NULL;
    char *rest = hf_keep_text(&record->keep, record->preload != NULL ? record->preload : "");
    for (const char *entry; (entry = strsep(&rest, ": ")) != NULL;) {
        const char *base = basename(entry);
        if (*base != '\0' && tsearch(base, &names, compare_names) == NULL)
            hf_keep_out_of_memory();
    }
    return names;
}

/* A process's mappings name the file that a link leads to, so the soname counts, too. */
static bool is_preloaded(void *const *names, const struct hf_record_object *object)
{
    return tfind(basename(object->path), names, compare_names) != NULL ||
           (object->soname != NULL && tfind(object->soname, names, compare_names) != NULL);
}

/* The object whose malloc() and free() a call by name reaches first; SIZE_MAX if that is libc. */
static size_t find_server(const struct hf_record *record)
{
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        if (object->namespace == 0 && object->role == HF_RECORD_ORDINARY &&
            object->defines_malloc && object->defines_free && object->users > 0)
            return i;
        if (object->namespace == 0 && hf_record_is_libc(object))
            break;
    }
    return SIZE_MAX;
}

/* A preloaded allocator serves the process except for objects loaded with RTLD_DEEPBIND, whose
 * scope begins with their own dependencies and therefore with libc. */
static void find_two_mallocs(struct hf_record *record, struct hf_record_end end, size_t server)
{
    const char *allocator = hf_record_allocator(&record->objects[server]);
    /* Even then, homefree may not know the owner of blocks that were allocated before it was
     * loaded. */
    if (hf_record_home(&record->objects[server]) && !hf_is_crash(end.signal))
        return;
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        const struct hf_record_set *sets[] = {&object->allocates, &object->frees};
        bool apart = false;
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < sets[s]->count; t++)
                apart = apart || hf_record_is_libc(&record->objects[sets[s]->indices[t]]);
        if (!apart || i == server || object->namespace != 0 || object->role != HF_RECORD_ORDINARY)
            continue;
        name(find(record, HF_DOCTOR_RULE_TWO_MALLOCS,
                  "%s serves the process, but these use libc's malloc and free",
                  allocator != NULL ? allocator : name_of(record, server)),
             object->path);
    }
}

/* Other libraries of libc's, for whose thread-local variables it makes room. Before glibc 2.34
 * there are several that many programs have. */
static bool is_libcs_own(const struct hf_record_object *object)
{
    static const char *const names[] = {"libm.so",    "libpthread.so", "librt.so",
                                        "libutil.so", "libresolv.so",  "libnss_"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hf_record_soname_is(object, names[i]))
            return true;
    return false;
}

static void find_of_object(struct hf_record *record, struct hf_record_end end,
                           void *const *preloaded, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    const bool ordinary = object->role == HF_RECORD_ORDINARY;
    find_elsewhere(record, index);
    find_embedded(record, end, index);
    if (ordinary && object->defines_malloc && object->defines_free &&
        is_preloaded(preloaded, object))
        name(find(record, HF_DOCTOR_RULE_PRELOADED, "%s was preloaded",
                  hf_record_allocator(object) != NULL ? hf_record_allocator(object)
                                                      : "an allocator"),
             object->path);
    if (ordinary && object->static_tls && !object->program && !is_libcs_own(object))
        name(find(record, HF_DOCTOR_RULE_STATIC_TLS, "objects use static TLS"), object->path);
    if (object->reach != NULL && object->role != HF_RECORD_LINKER)
        name(find(record, HF_DOCTOR_RULE_OUT_OF_REACH, "%s", object->reach), object->path);
}

/* Reports objects that `is` recognises if there are several; in one namespace only, if
 * `together`. */
static void find_several(struct hf_record *record, enum hf_doctor_rule rule, const char *what,
                         bool (*is)(const struct hf_record_object *), bool together)
{
    size_t count = 0, first = 0;
    for (size_t i = 0; i < record->objects_count; i++) {
        if (!is(&record->objects[i]) ||
            (together && count > 0 &&
             record->objects[i].namespace != record->objects[first].namespace))
            continue;
        if (count == 0)
            first = i;
        count++;
    }
    if (count < 2)
        return;
    for (size_t i = first; i < record->objects_count; i++)
        if (is(&record->objects[i]) &&
            (!together || record->objects[i].namespace == record->objects[first].namespace))
            name(find(record, rule, "%zu copies of %s", count, what), record->objects[i].path);
}

static bool is_homefree(const struct hf_record_object *object)
{
    return object->role == HF_RECORD_HOMEFREE;
}
static bool is_libstdcxx(const struct hf_record_object *object)
{
    return hf_record_soname_is(object, "libstdc++");
}

static void find_of_slots(struct hf_record *record)
{
    for (size_t i = 0; i < record->refusals_count && record->routing == HF_RECORD_ON; i++) {
        const struct hf_record_refusal *refusal = &record->refusals[i];
        if (record->process != NULL && hf_live_takes_too_long(record->process))
            break;
        bool word = strcmp(refusal->kind, "word") == 0;
        name(find(record, word ? HF_DOCTOR_RULE_STORED_POINTER : HF_DOCTOR_RULE_SLOT_REFUSED,
                  "%s of %s: %s", refusal->function, name_of(record, refusal->object),
                  refusal->reason),
             record->objects[refusal->object].path);
    }
    for (size_t i = 0; i < record->copies_count; i++)
        name(find(record, HF_DOCTOR_RULE_COPY_RELOCATION,
                  "the program's copy of a variable points to %s", record->copies[i].function),
             record->copies[i].variable);
}

static void count_users(struct hf_record *record)
{
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_set *allocates = &record->objects[i].allocates;
        const struct hf_record_set *frees = &record->objects[i].frees;
        for (size_t t = 0; t < allocates->count; t++)
            record->objects[allocates->indices[t]].users += allocates->indices[t] != i;
        for (size_t t = 0; t < frees->count; t++)
            record->objects[frees->indices[t]].users +=
                frees->indices[t] != i && !hf_record_has(allocates, frees->indices[t]);
    }
}

void hf_record_find(struct hf_record *record, struct hf_record_end end)
{
    count_users(record);
    look_into_files(record);
    find_death(record, end);
    void *preloaded = read_preloaded(record);
    for (size_t i = 0; i < record->objects_count; i++)
        find_of_object(record, end, &preloaded, i);
    tdestroy(preloaded, keep_name);
    const size_t server = find_server(record);
    if (server != SIZE_MAX)
        find_two_mallocs(record, end, server);
    find_several(record, HF_DOCTOR_RULE_SEVERAL_HOMEFREES, "libhomefree", is_homefree, false);
    find_several(record, HF_DOCTOR_RULE_SEVERAL_LIBSTDCXX, "libstdc++", is_libstdcxx, true);
    find_several(record, HF_DOCTOR_RULE_SEVERAL_LIBCS, "libc", hf_record_is_libc, false);
    find_of_slots(record);
    if (record->routing == HF_RECORD_OFF)
        find(record, HF_DOCTOR_RULE_ROUTING_OFF, "HOMEFREE_CONF contains route:off");
}
