/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See report_document.h.
 */
#include "loader/command/report/report_document.h"

#include "loader/command/json.h"

#include <string.h>

/* Moments in the document, over all processes; and for each at least. A page has fewer pixels. */
enum { MOMENTS_MAX = 20000, MOMENTS_MIN = 16 };

const struct hf_document_form hf_document_whole = {
    .timeline = true,
    .findings = SIZE_MAX,
};

static void write_known(struct hf_json *json, const char *key, bool known, uint64_t value)
{
    if (known)
        hf_json_unsigned(json, key, value);
    else
        hf_json_string(json, key, NULL);
}

static void write_nonzero(struct hf_json *json, const char *key, uint64_t value)
{
    write_known(json, key, value != 0, value);
}

/* ---- processes ------------------------------------------------------------------------------ */

static void write_command(struct hf_json *json, const struct hf_report_header *header)
{
    hf_json_array(json, "command");
    for (size_t at = 0; at < header->command_size; at += strlen(header->command + at) + 1)
        hf_json_string(json, NULL, header->command + at);
    hf_json_close(json);
}

static void write_process(struct hf_json *json, const struct hf_process *process)
{
    static const char *const modes[] = {NULL, "count", "report", "strict"};
    static const char *const ends[] = {NULL, "exit", "signal", "exec"};
    const struct hf_report_header *header = &process->header;
    const uint32_t end = header->end <= HF_REPORT_EXEC ? header->end : HF_REPORT_RUNS;
    hf_json_object(json, NULL);
    hf_json_unsigned(json, "pid", header->process);
    write_nonzero(json, "parent", header->parent);
    hf_json_string(json, "host", header->host[0] != '\0' ? header->host : NULL);
    write_command(json, header);
    hf_json_string(json, "mode", header->mode <= HF_REPORT_STRICT ? modes[header->mode] : NULL);
    hf_json_seconds(json, "started", header->started);
    if (header->ended != 0)
        hf_json_seconds(json, "ended", header->ended);
    else
        hf_json_string(json, "ended", NULL);
    hf_json_string(json, "end", ends[end]);
    write_known(json, "status", end == HF_REPORT_EXIT || end == HF_REPORT_SIGNAL, header->status);
    hf_json_string(json, "homefree", header->homefree[0] != '\0' ? header->homefree : NULL);
    hf_json_unsigned(json, "blocks", process->blocks);
    hf_json_unsigned(json, "bytes", process->bytes);
    hf_json_unsigned(json, "dropped", header->dropped);
    hf_json_boolean(json, "truncated", process->truncated);
    hf_json_string(json, "file", process->path);
    hf_json_close(json);
}

/* ---- findings ------------------------------------------------------------------------------- */

static const char *object_path(const struct hf_object *object)
{
    return object != NULL ? object->path : NULL;
}

static void write_place(struct hf_json *json, const struct hf_place *place)
{
    hf_json_string(json, "symbol", place != NULL ? place->symbol : NULL);
    hf_json_string(json, "file", place != NULL ? place->file : NULL);
    write_nonzero(json, "line", place != NULL ? place->line : 0);
    write_known(json, "offset", place != NULL, place != NULL ? place->offset : 0);
}

static void write_trace(struct hf_json *json, const struct hf_trace *trace, bool brief)
{
    const size_t native = brief ? 0 : trace->native;
    const size_t python = brief && trace->python > 0 ? 1 : trace->python;
    hf_json_array(json, "stack");
    for (size_t i = 0; i < native; i++) {
        const struct hf_place *place = trace->frames[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "object", place != NULL ? object_path(place->object) : NULL);
        write_place(json, place);
        hf_json_close(json);
    }
    hf_json_close(json);
    hf_json_array(json, "python");
    for (size_t i = 0; i < python; i++) {
        hf_json_object(json, NULL);
        hf_json_string(json, "file", trace->lines[i].file);
        hf_json_string(json, "function", trace->lines[i].function);
        write_nonzero(json, "line", trace->lines[i].line);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_side(struct hf_json *json, const char *key, const struct hf_side *side,
                       const char *allocator, const char *allocator_object,
                       const struct hf_trace *trace, bool brief)
{
    const struct hf_object *object = side->place != NULL ? side->place->object : NULL;
    hf_json_object(json, key);
    hf_json_string(json, "object", object_path(object));
    hf_json_string(json, "allocator", allocator);
    hf_json_string(json, "allocator_object", allocator_object);
    hf_json_string(json, "function", side->function);
    write_place(json, side->place);
    write_trace(json, trace, brief);
    hf_json_close(json);
}

/* What tells more of a finding than which one it is. */
static void write_rest(struct hf_json *json, const struct hf_merged *merged,
                       const struct hf_merged_finding *finding)
{
    const struct hf_finding_key *key = &finding->key;
    if (key->first_freed.place != NULL || key->first_freed.function != NULL)
        write_side(json, "first_freed", &key->first_freed, NULL, NULL, &finding->first_freed,
                   false);
    else
        hf_json_string(json, "first_freed", NULL);
    const bool of_interpreter = key->rule == HF_FAULT_INTERPRETER_LEAK;
    write_nonzero(json, "asked", finding->asked);
    write_nonzero(json, "said", of_interpreter ? 0 : finding->said);
    write_nonzero(json, "interpreter", of_interpreter ? finding->said : 0);
    hf_json_string(json, "without_homefree", hf_merged_without(merged, finding));
    const struct hf_rule_text *rule = hf_report_rule((uint32_t)key->rule);
    hf_json_string(json, "remedy", rule->remedy);
    hf_rules_write_help(json, &hf_report_rules, rule->name);
    hf_json_array(json, "processes");
    for (size_t i = 0; i < finding->processes_count; i++)
        hf_json_unsigned(json, NULL, finding->processes[i]->header.process);
    hf_json_close(json);
}

static void write_finding(struct hf_json *json, const struct hf_merged *merged,
                          const struct hf_merged_finding *finding, bool brief)
{
    const struct hf_finding_key *key = &finding->key;
    const struct hf_rule_text *rule = hf_report_rule((uint32_t)key->rule);
    const struct hf_holder freer = hf_merged_freer(merged, finding);
    hf_json_object(json, NULL);
    hf_json_string(json, "rule", rule->name);
    hf_json_string(json, "severity", hf_severity_name(rule->severity));
    hf_json_unsigned(json, "count", finding->count);
    if (!brief)
        hf_json_unsigned(json, "bytes", finding->bytes);
    write_side(json, "allocated", &key->allocated, key->allocator, key->allocator_object,
               &finding->allocated, brief);
    write_side(json, "freed", &key->freed, freer.allocator, freer.path, &finding->freed, brief);
    if (!brief)
        write_rest(json, merged, finding);
    hf_json_close(json);
}

/* The rules that have findings, as --rules lists them. */
static void write_rules(struct hf_json *json, const struct hf_merged *merged)
{
    size_t counts[HF_RULES_MAX] = {0};
    for (size_t i = 0; i < merged->findings_count; i++)
        counts[merged->findings[i]->key.rule - HF_FAULT_NOTHING - 1]++;
    hf_json_array(json, "rules");
    for (size_t i = 0; i < hf_report_rules.count; i++) {
        const struct hf_rule_text *rule = &hf_report_rules.rules[i];
        if (counts[i] == 0)
            continue;
        hf_json_object(json, NULL);
        hf_json_string(json, "rule", rule->name);
        hf_json_string(json, "severity", hf_severity_name(rule->severity));
        hf_json_unsigned(json, "findings", counts[i]);
        hf_json_string(json, "remedy", rule->remedy);
        hf_rules_write_help(json, &hf_report_rules, rule->name);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_suppression(struct hf_json *json, const struct hf_merged_suppression *item)
{
    hf_json_object(json, NULL);
    hf_json_string(json, "pattern", item->key.pattern);
    hf_json_string(json, "why", item->key.why);
    hf_json_unsigned(json, "count", item->count);
    hf_json_close(json);
}

/* ---- matrix and timeline -------------------------------------------------------------------- */

static void write_pair(struct hf_json *json, const struct hf_merged_pair *pair)
{
    hf_json_object(json, NULL);
    hf_json_string(json, "allocated_by", pair->key.allocated);
    hf_json_string(json, "freed_by", pair->key.freed);
    hf_json_unsigned(json, "blocks", pair->blocks);
    hf_json_unsigned(json, "bytes", pair->bytes);
    hf_json_unsigned(json, "threads", pair->threads);
    hf_json_close(json);
}

/* Writes at most about `most` moments: every so many times, and the last time. Several objects'
 * bytes at one time stay together. */
static void write_moments(struct hf_json *json, const struct hf_process *process, size_t most)
{
    const size_t count = process->moments_count;
    const size_t step = count / most + 1;
    size_t times = 0;
    for (size_t i = 0; i < count; i++) {
        const struct hf_moment *moment = &process->moments[i];
        if (i > 0 && moment->time != moment[-1].time)
            times++;
        if (times % step != 0 && moment->time != process->moments[count - 1].time)
            continue;
        hf_json_object(json, NULL);
        hf_json_unsigned(json, "pid", process->header.process);
        hf_json_seconds(json, "time", moment->time);
        hf_json_string(json, "object", moment->path);
        hf_json_unsigned(json, "bytes", moment->bytes);
        hf_json_close(json);
    }
}

static void write_timeline(struct hf_json *json, const struct hf_merged *merged)
{
    const size_t share =
        merged->processes_count == 0 ? MOMENTS_MAX : MOMENTS_MAX / merged->processes_count;
    for (size_t i = 0; i < merged->processes_count; i++)
        write_moments(json, merged->processes[i], share > MOMENTS_MIN ? share : MOMENTS_MIN);
}

void hf_report_document_write(FILE *out, const struct hf_merged *merged,
                              const struct hf_document_form *form)
{
    struct hf_json json;
    hf_json_begin_plain(&json, out, form->compact);
    hf_json_unsigned(&json, "homefree_report", HF_REPORT_DOCUMENT);
    hf_json_array(&json, "processes");
    for (size_t i = 0; i < merged->processes_count; i++)
        write_process(&json, merged->processes[i]);
    hf_json_close(&json);
    hf_json_unsigned(&json, "left_out", merged->left_out);
    write_rules(&json, merged);
    hf_json_array(&json, "findings");
    for (size_t i = 0; i < merged->findings_count && i < form->findings; i++)
        write_finding(&json, merged, merged->findings[i], form->brief);
    hf_json_close(&json);
    hf_json_array(&json, "suppressed");
    for (size_t i = 0; i < merged->suppressed_count; i++)
        write_suppression(&json, merged->suppressed[i]);
    hf_json_close(&json);
    hf_json_array(&json, "matrix");
    for (size_t i = 0; i < merged->pairs_count; i++)
        write_pair(&json, merged->pairs[i]);
    hf_json_close(&json);
    hf_json_array(&json, "timeline");
    if (form->timeline)
        write_timeline(&json, merged);
    hf_json_finish(&json);
}
