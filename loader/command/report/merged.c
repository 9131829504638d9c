/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See merged.h.
 */
#include "loader/command/report/merged.h"

#include <stdlib.h>
#include <string.h>

/* Frames of all stacks in one file that are kept, and as many more as fit into the file. Findings
 * share stacks; those of a hostile file could overlap. */
enum { FRAMES_MAX = 1 << 20, FRAMES_OF_CHUNK = HF_REPORT_CHUNK / sizeof(struct hf_report_frame) };

/* Objects of a file that are found by number without looking at their record again. */
enum { NUMBERED = 1 << 16 };

static const struct hf_rule_text rule_texts[] = {
#define HF_REPORT_RULE(id, name, severity, explanation, without, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "alloc/diagnose/report_rules.def"
};

static const char *const without_homefree[] = {
#define HF_REPORT_RULE(id, name, severity, explanation, without, remedy) without,
#include "alloc/diagnose/report_rules.def"
};

static const char *const functions[] = {
#define HF_REPORT_FUNCTION(id, name) name,
#include "alloc/diagnose/report_functions.def"
};

_Static_assert(HF_FAULT_COUNT - 1 <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
const struct hf_rule_table hf_report_rules = {"report", 1, rule_texts + 1, HF_FAULT_COUNT - 1};

const struct hf_rule_text *hf_report_rule(uint32_t rule)
{
    return &rule_texts[rule];
}

const char *hf_merged_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

void hf_merged_begin(struct hf_merged *merged, struct hf_keep *keep)
{
    *merged = (struct hf_merged){.keep = keep};
    hf_keep_table_begin(&merged->strings, keep, 0);
    hf_keep_table_begin(&merged->objects_table, keep, sizeof(const char *));
    hf_keep_table_begin(&merged->holders, keep, sizeof(const char *));
    hf_keep_table_begin(&merged->places_table, keep, offsetof(struct hf_place, symbol));
    hf_keep_table_begin(&merged->findings_table, keep, sizeof(struct hf_finding_key));
    hf_keep_table_begin(&merged->pairs_table, keep, sizeof(struct hf_pair_key));
    hf_keep_table_begin(&merged->suppressed_table, keep, sizeof(struct hf_suppression_key));
    merged->numbered = hf_keep_bytes(keep, NUMBERED * sizeof(struct hf_object *));
}

/* ---- comparisons for sorting ---- */

static int order_numbers(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

/* NULL comes first. */
static int order_texts(const char *one, const char *other)
{
    if (one == NULL || other == NULL)
        return (one != NULL) - (other != NULL);
    return strcmp(one, other);
}

/* ---- strings, objects, places --------------------------------------------------------------- */

/* NULL stays NULL. */
static const char *one_string(struct hf_merged *merged, const char *text)
{
    if (text == NULL)
        return NULL;
    char *known = hf_keep_table_find(&merged->strings, text);
    if (known == NULL) {
        known = hf_keep_text(merged->keep, text);
        hf_keep_table_add(&merged->strings, known);
    }
    return known;
}

static struct hf_object *one_object(struct hf_merged *merged, struct hf_recorded *file,
                                    const struct hf_report_object *record)
{
    char key[2 * sizeof record->build + 8];
    const char *path = hf_recorded_string(file, record->path);
    size_t build_size = record->build_size;
    if (build_size > sizeof record->build) {
        file->damaged = true;
        build_size = 0;
    }
    size_t length = 0;
    for (size_t i = 0; i < build_size; i++)
        length += (size_t)snprintf(key + length, sizeof key - length, "%02x", record->build[i]);
    if (build_size == 0 && path == NULL)
        return NULL;

    const char *identity = one_string(merged, build_size > 0 ? key : path);
    struct hf_object *object = hf_keep_table_find(&merged->objects_table, &identity);
    if (object == NULL) {
        object = hf_keep_bytes(merged->keep, sizeof *object);
        object->key = identity;
        object->path = one_string(merged, path != NULL ? path : key);
        object->build_size = build_size;
        memcpy(object->build, record->build, build_size);
        hf_keep_table_add(&merged->objects_table, object);
        HF_KEEP_ADD(merged->keep, merged->objects, merged->objects_count) = object;
    }
    return object;
}

/* Object 0, a number without a record, and an object without a name are unknown: NULL. */
static struct hf_object *object_of(struct hf_merged *merged, struct hf_recorded *file,
                                   uint32_t number)
{
    if (number == 0)
        return NULL;
    if (number < NUMBERED && merged->numbered[number] != NULL)
        return merged->numbered[number];
    struct hf_report_object record;
    if (!hf_recorded_get(file, HF_REPORT_OBJECTS, number, &record))
        return NULL;
    struct hf_object *object = one_object(merged, file, &record);
    if (number < NUMBERED)
        merged->numbered[number] = object;
    return object;
}

static struct hf_place *place_of(struct hf_merged *merged, struct hf_recorded *file,
                                 uint32_t number, uint64_t address)
{
    struct hf_object *object = object_of(merged, file, number);
    struct hf_report_object record;
    if (object == NULL || !hf_recorded_get(file, HF_REPORT_OBJECTS, number, &record))
        return NULL;
    if (address < record.base) {
        file->damaged = true;
        return NULL;
    }
    const struct hf_place key = {.object = object, .offset = address - record.base};
    struct hf_place *place = hf_keep_table_find(&merged->places_table, &key);
    if (place == NULL) {
        place = hf_keep_bytes(merged->keep, sizeof *place);
        *place = key;
        hf_keep_table_add(&merged->places_table, place);
        HF_KEEP_ADD(merged->keep, object->places, object->places_count) = place;
    }
    return place;
}

/* A Python frame as text; NULL: unknown. */
static const char *python_text(struct hf_keep *keep, const char *function, const char *file)
{
    return function != NULL && file != NULL ? hf_keep_format(keep, "%s in %s", function, file)
                                            : NULL;
}

/* The innermost Python frame of a stack. */
static void add_python(struct hf_merged *merged, struct hf_recorded *file, uint32_t number,
                       struct hf_side *side)
{
    struct hf_recorded_stack stack;
    if (!hf_recorded_stack(file, number, &stack) || stack.python == 0)
        return;
    const struct hf_report_line line = hf_recorded_line(&stack, 0);
    side->python =
        one_string(merged, python_text(merged->keep, hf_recorded_string(file, line.function),
                                       hf_recorded_string(file, line.file)));
    side->line = side->python != NULL ? line.line : 0;
}

static struct hf_side side_of(struct hf_merged *merged, struct hf_recorded *file, uint32_t number,
                              uint32_t stack)
{
    struct hf_side side = {.place = NULL};
    struct hf_report_site site;
    if (number == 0 || !hf_recorded_get(file, HF_REPORT_SITES, number, &site))
        return side;
    side.place = place_of(merged, file, site.object, site.address);
    if (side.place != NULL && hf_report_calls_for_python(side.place->object->path))
        add_python(merged, file, stack, &side);
    if (site.function >= HF_FUNCTION_COUNT)
        file->damaged = true;
    else if (site.function != HF_FUNCTION_unknown)
        side.function = functions[site.function];
    return side;
}

static struct hf_trace trace_of(struct hf_merged *merged, struct hf_recorded *file, uint32_t number,
                                size_t *frames_left)
{
    struct hf_trace trace = {.native = 0};
    struct hf_recorded_stack stack;
    if (!hf_recorded_stack(file, number, &stack))
        return trace;
    if (stack.native + stack.python > *frames_left) {
        file->damaged = true;
        return trace;
    }
    *frames_left -= stack.native + stack.python;
    trace.native = stack.native;
    trace.python = stack.python;
    trace.frames = hf_keep_bytes(merged->keep, stack.native * sizeof *trace.frames);
    trace.lines = hf_keep_bytes(merged->keep, stack.python * sizeof *trace.lines);
    for (size_t i = 0; i < stack.native; i++) {
        const struct hf_report_frame frame = hf_recorded_frame(&stack, i);
        trace.frames[i] = place_of(merged, file, frame.object, frame.address);
    }
    for (size_t i = 0; i < stack.python; i++) {
        const struct hf_report_line line = hf_recorded_line(&stack, i);
        trace.lines[i] = (struct hf_python_line){
            .file = one_string(merged, hf_recorded_string(file, line.file)),
            .function = one_string(merged, hf_recorded_string(file, line.function)),
            .line = line.line,
        };
    }
    return trace;
}

/* ---- adding a file -------------------------------------------------------------------------- */

/* Counts stay at their maximum: hostile ones must not wrap around. */
static void add_to(uint64_t *sum, uint64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = UINT64_MAX;
}

static void add_allocators(struct hf_merged *merged, struct hf_recorded *file)
{
    struct hf_recorded_cursor cursor = {.part = 0};
    struct hf_report_allocator record;
    while (hf_recorded_next(file, HF_REPORT_ALLOCATORS, &cursor, &record)) {
        const char *path = one_string(merged, hf_recorded_string(file, record.object));
        const char *name = one_string(merged, hf_recorded_string(file, record.name));
        if (path == NULL || name == NULL || hf_keep_table_find(&merged->holders, &path) != NULL)
            continue;
        struct hf_holder *holder = hf_keep_bytes(merged->keep, sizeof *holder);
        *holder = (struct hf_holder){path, name};
        hf_keep_table_add(&merged->holders, holder);
    }
}

static void add_finding(struct hf_merged *merged, struct hf_recorded *file,
                        struct hf_process *process, const struct hf_report_finding *record,
                        size_t *frames_left)
{
    if (record->rule == HF_FAULT_NOTHING || record->rule >= HF_FAULT_COUNT) {
        file->damaged = true;
        return;
    }
    struct hf_finding_key key = {
        .rule = record->rule,
        .allocated = side_of(merged, file, record->allocated_site, record->allocated_stack),
        .freed = side_of(merged, file, record->freed_site, record->freed_stack),
        .first_freed = side_of(merged, file, record->first_freed_site, record->first_freed_stack),
    };
    struct hf_report_allocator allocator;
    if (record->allocator != 0 &&
        hf_recorded_get(file, HF_REPORT_ALLOCATORS, record->allocator - 1, &allocator)) {
        key.allocator = one_string(merged, hf_recorded_string(file, allocator.name));
        key.allocator_object = one_string(merged, hf_recorded_string(file, allocator.object));
    }
    struct hf_merged_finding *finding = hf_keep_table_find(&merged->findings_table, &key);
    if (finding == NULL) {
        finding = hf_keep_bytes(merged->keep, sizeof *finding);
        finding->key = key;
        finding->asked = record->asked;
        finding->said = record->said;
        hf_keep_table_add(&merged->findings_table, finding);
        HF_KEEP_ADD(merged->keep, merged->findings, merged->findings_count) = finding;
    }
    add_to(&finding->count, record->count);
    add_to(&finding->bytes, record->bytes);
    if (finding->allocated.native + finding->allocated.python == 0)
        finding->allocated = trace_of(merged, file, record->allocated_stack, frames_left);
    if (finding->freed.native + finding->freed.python == 0)
        finding->freed = trace_of(merged, file, record->freed_stack, frames_left);
    if (finding->first_freed.native + finding->first_freed.python == 0)
        finding->first_freed = trace_of(merged, file, record->first_freed_stack, frames_left);
    const size_t count = finding->processes_count;
    if (count == 0 || finding->processes[count - 1] != process)
        HF_KEEP_ADD(merged->keep, finding->processes, finding->processes_count) = process;
}

static void add_pair(struct hf_merged *merged, struct hf_recorded *file, struct hf_process *process,
                     const struct hf_report_pair *record)
{
    if (record->threads == 0)
        return;
    const struct hf_object *allocated = object_of(merged, file, record->allocated);
    if (record->freed == HF_REPORT_ALLOCATED) {
        add_to(&process->blocks, record->blocks);
        add_to(&process->bytes, record->bytes);
        return;
    }
    const struct hf_object *freed = object_of(merged, file, record->freed);
    const struct hf_pair_key key = {
        .allocated = allocated != NULL ? allocated->path : NULL,
        .freed = freed != NULL ? freed->path : NULL,
    };
    struct hf_merged_pair *pair = hf_keep_table_find(&merged->pairs_table, &key);
    if (pair == NULL) {
        pair = hf_keep_bytes(merged->keep, sizeof *pair);
        pair->key = key;
        hf_keep_table_add(&merged->pairs_table, pair);
        HF_KEEP_ADD(merged->keep, merged->pairs, merged->pairs_count) = pair;
    }
    add_to(&pair->blocks, record->blocks);
    add_to(&pair->bytes, record->bytes);
    add_to(&pair->threads, record->threads);
}

static void add_suppressions(struct hf_merged *merged, struct hf_recorded *file)
{
    struct hf_recorded_cursor cursor = {.part = 0};
    struct hf_report_suppressed record;
    while (hf_recorded_next(file, HF_REPORT_SUPPRESSED, &cursor, &record)) {
        const struct hf_suppression_key key = {
            .pattern = one_string(merged, hf_recorded_string(file, record.pattern)),
            .why = one_string(merged, hf_recorded_string(file, record.why)),
        };
        struct hf_merged_suppression *item = hf_keep_table_find(&merged->suppressed_table, &key);
        if (item == NULL) {
            item = hf_keep_bytes(merged->keep, sizeof *item);
            item->key = key;
            hf_keep_table_add(&merged->suppressed_table, item);
            HF_KEEP_ADD(merged->keep, merged->suppressed, merged->suppressed_count) = item;
        }
        add_to(&item->count, record.count);
    }
}

static void add_samples(struct hf_merged *merged, struct hf_recorded *file,
                        struct hf_process *process)
{
    struct hf_recorded_cursor cursor = {.part = 0};
    struct hf_report_sample record;
    while (hf_recorded_next(file, HF_REPORT_SAMPLES, &cursor, &record)) {
        const struct hf_object *object = object_of(merged, file, record.object);
        HF_KEEP_ADD(merged->keep, process->moments, process->moments_count) = (struct hf_moment){
            .time = record.time,
            .bytes = record.bytes,
            .path = object != NULL ? object->path : NULL,
        };
    }
}

void hf_merged_add(struct hf_merged *merged, struct hf_recorded *file, const char *path)
{
    struct hf_process *process = hf_keep_bytes(merged->keep, sizeof *process);
    process->header = file->header;
    process->path = one_string(merged, path);
    memset(merged->numbered, 0, NUMBERED * sizeof(struct hf_object *));

    add_allocators(merged, file);
    struct hf_recorded_cursor cursor = {.part = 0};
    struct hf_report_finding finding;
    size_t frames_left = FRAMES_MAX + FRAMES_OF_CHUNK * file->parts_count[HF_REPORT_STACKS];
    while (hf_recorded_next(file, HF_REPORT_FINDINGS, &cursor, &finding))
        add_finding(merged, file, process, &finding, &frames_left);
    cursor = (struct hf_recorded_cursor){.part = 0};
    struct hf_report_pair pair;
    while (hf_recorded_next(file, HF_REPORT_PAIRS, &cursor, &pair))
        add_pair(merged, file, process, &pair);
    add_suppressions(merged, file);
    add_samples(merged, file, process);

    process->truncated = file->damaged;
    HF_KEEP_ADD(merged->keep, merged->processes, merged->processes_count) = process;
}

/* ---- order ---------------------------------------------------------------------------------- */

static int compare_objects(const struct hf_object *one, const struct hf_object *other)
{
    if (one == NULL || other == NULL)
        return (one != NULL) - (other != NULL);
    return strcmp(one->path, other->path) ?: strcmp(one->key, other->key);
}

static int compare_sides(const struct hf_side *one, const struct hf_side *other)
{
    const struct hf_place *left = one->place, *right = other->place;
    int order =
        compare_objects(left != NULL ? left->object : NULL, right != NULL ? right->object : NULL);
    if (order == 0 && left != NULL && right != NULL)
        order = order_numbers(left->offset, right->offset);
    return order ?: order_texts(one->function, other->function)
                        ?: order_texts(one->python, other->python)
                               ?: order_numbers(one->line, other->line);
}

static int compare_findings(const void *left, const void *right)
{
    const struct hf_merged_finding *one = *(struct hf_merged_finding *const *)left;
    const struct hf_merged_finding *other = *(struct hf_merged_finding *const *)right;
    return order_numbers(rule_texts[other->key.rule].severity,
                            rule_texts[one->key.rule].severity)
               ?: order_numbers(other->count, one->count)
               ?: order_numbers(other->bytes, one->bytes)
               ?: order_numbers(one->key.rule, other->key.rule)
               ?: order_texts(one->key.allocator, other->key.allocator)
               ?: order_texts(one->key.allocator_object, other->key.allocator_object)
               ?: compare_sides(&one->key.allocated, &other->key.allocated)
               ?: compare_sides(&one->key.freed, &other->key.freed)
               ?: compare_sides(&one->key.first_freed, &other->key.first_freed);
}

static int compare_pairs(const void *left, const void *right)
{
    const struct hf_merged_pair *one = *(struct hf_merged_pair *const *)left;
    const struct hf_merged_pair *other = *(struct hf_merged_pair *const *)right;
    return order_numbers(other->blocks, one->blocks)
               ?: order_numbers(other->bytes, one->bytes)
               ?: order_texts(one->key.allocated, other->key.allocated)
               ?: order_texts(one->key.freed, other->key.freed);
}

static int compare_suppressions(const void *left, const void *right)
{
    const struct hf_merged_suppression *one = *(struct hf_merged_suppression *const *)left;
    const struct hf_merged_suppression *other = *(struct hf_merged_suppression *const *)right;
    return order_numbers(other->count, one->count)
               ?: order_texts(one->key.pattern, other->key.pattern)
               ?: order_texts(one->key.why, other->key.why);
}

static int compare_processes(const void *left, const void *right)
{
    const struct hf_process *one = *(struct hf_process *const *)left;
    const struct hf_process *other = *(struct hf_process *const *)right;
    return order_numbers(one->header.started, other->header.started)
               ?: strcmp(one->header.host, other->header.host)
               ?: order_numbers(one->header.process, other->header.process)
               ?: strcmp(one->path, other->path);
}

static int compare_moments(const void *left, const void *right)
{
    const struct hf_moment *one = left, *other = right;
    return order_numbers(one->time, other->time) ?: order_texts(one->path, other->path)
               ?: order_numbers(one->bytes, other->bytes);
}

static void sort(void *array, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, size, compare);
}

void hf_merged_finish(struct hf_merged *merged)
{
    sort(merged->findings, merged->findings_count, sizeof *merged->findings, compare_findings);
    sort(merged->pairs, merged->pairs_count, sizeof *merged->pairs, compare_pairs);
    sort(merged->suppressed, merged->suppressed_count, sizeof *merged->suppressed,
         compare_suppressions);
    sort(merged->processes, merged->processes_count, sizeof *merged->processes, compare_processes);
    for (size_t i = 0; i < merged->processes_count; i++)
        sort(merged->processes[i]->moments, merged->processes[i]->moments_count,
             sizeof(struct hf_moment), compare_moments);
    for (size_t i = 0; i < merged->findings_count; i++) {
        struct hf_merged_finding *finding = merged->findings[i];
        sort(finding->processes, finding->processes_count, sizeof *finding->processes,
             compare_processes);
    }
}

/* ---- what follows from it ------------------------------------------------------------------- */

struct hf_rule_totals hf_merged_totals(const struct hf_merged *merged)
{
    struct hf_rule_totals totals = {.failed = 0};
    for (size_t i = 0; i < merged->findings_count; i++) {
        const uint64_t rule = merged->findings[i]->key.rule;
        hf_rules_count(&totals, &hf_report_rules, rule - 1);
    }
    return totals;
}

bool hf_finding_is_access(const struct hf_finding_key *key)
{
    static const enum hf_report_function accesses[] = {HF_FUNCTION_read, HF_FUNCTION_write,
                                                       HF_FUNCTION_access};
    if (key->rule == HF_FAULT_USE_AFTER_FREE)
        return true;
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++)
        if (key->freed.function == functions[accesses[i]])
            return true;
    return false;
}

static bool is_libc(const char *allocator)
{
    /* What the heap gave out would have come from libc. */
    return strcmp(allocator, "libc") == 0 || strcmp(allocator, "heap") == 0;
}

/* The allocator whose own interface a function belongs to, and no other; NULL: none. */
static const char *interface_of(const char *function)
{
    static const struct {
        const char *prefix, *allocator;
    } interfaces[] = {{"mi_", "mimalloc"},
                      {"tc_", "tcmalloc"},
                      {"dallocx", "jemalloc"},
                      {"sdallocx", "jemalloc"}};
    for (size_t i = 0; function != NULL && i < sizeof interfaces / sizeof interfaces[0]; i++)
        if (strncmp(function, interfaces[i].prefix, strlen(interfaces[i].prefix)) == 0)
            return interfaces[i].allocator;
    return NULL;
}

struct hf_holder hf_merged_freer(const struct hf_merged *merged,
                                 const struct hf_merged_finding *finding)
{
    const struct hf_finding_key *key = &finding->key;
    const struct hf_place *place = key->freed.place;
    if (key->rule == HF_FAULT_FOREIGN_FREE) {
        /* An object that holds an allocator frees with it; if the block came from there, it called
         * somebody else's function. Everybody else calls libc's. */
        const struct hf_holder *own = NULL;
        const char *interface = interface_of(key->freed.function);
        if (interface != NULL)
            return (struct hf_holder){.allocator = interface};
        if (place != NULL && place->object->path != key->allocator_object)
            own = hf_keep_table_find(&merged->holders, &place->object->path);
        if (own != NULL)
            return *own;
        const bool foreign =
            key->allocator != NULL ? !is_libc(key->allocator) : key->freed.function != NULL;
        return (struct hf_holder){.allocator = foreign ? "libc" : NULL};
    }
    if (key->rule == HF_FAULT_DOMAIN_MISMATCH || key->rule == HF_FAULT_BOUNDARY_LEAK)
        return (struct hf_holder){.allocator = NULL};
    return (struct hf_holder){key->allocator_object, key->allocator};
}

const char *hf_merged_without(const struct hf_merged *merged,
                              const struct hf_merged_finding *finding)
{
    static const struct {
        const char *freer, *what;
    } deaths[] = {
#define HF_REPORT_DEATH(freer, what) {freer, what},
#include "loader/command/report/report_deaths.def"
    };
    const uint64_t rule = finding->key.rule;
    if (without_homefree[rule] != NULL || rule != HF_FAULT_FOREIGN_FREE)
        return without_homefree[rule];

    const char *freer = hf_merged_freer(merged, finding).allocator;
    if (freer == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++)
        if (strcmp(deaths[i].freer, is_libc(freer) ? "libc" : freer) == 0)
            return deaths[i].what;
    return NULL;
}
