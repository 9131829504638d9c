/*
 * See report_compare.h.
 */
#include "loader/command/report/report_compare.h"

#include "loader/command/command.h"
#include "loader/command/report/json_reader.h"
#include "loader/command/report/order.h"
#include "loader/command/report/place_names.h"
#include "loader/command/report/report_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char who[] = "homefree report";

/* Larger documents are refused. */
#define DOCUMENT_MAX (UINT64_C(1) << 30)

/* Findings with which one is compared whose names are not all known. A hostile document could have
 * so many that comparing each with each takes hours. */
enum { CANDIDATES_MAX = 1000 };

/* The findings of a report. */
struct list {
    struct hf_keep *keep;
    struct hf_compared *items;
    size_t count;
};

const char *hf_change_name(enum hf_change change)
{
    static const char *const names[] = {"new", "more", "fewer", "gone", "same"};
    return names[change];
}

/* ---- the two reports ------------------------------------------------------------------------ */

static struct hf_compared *add(struct list *list)
{
    list->items = hf_keep_more(list->keep, list->items, list->count, sizeof *list->items);
    return &list->items[list->count++];
}

static struct hf_compared_side side_of(const struct hf_side *side)
{
    const struct hf_place *place = side->place;
    return (struct hf_compared_side){
        .object = place != NULL ? place->object->path : NULL,
        .function = side->function,
        .symbol = side->python != NULL ? side->python : (place != NULL ? place->symbol : NULL),
    };
}

static void list_merged(struct list *list, const struct hf_merged *merged)
{
    for (size_t i = 0; i < merged->findings_count; i++) {
        const struct hf_merged_finding *finding = merged->findings[i];
        const struct hf_rule_text *rule = hf_report_rule((uint32_t)finding->key.rule);
        *add(list) = (struct hf_compared){
            .rule = rule->name,
            .severity = hf_severity_name(rule->severity),
            .allocator = finding->key.allocator,
            .allocated = side_of(&finding->key.allocated),
            .freed = side_of(&finding->key.freed),
            .after = finding->count,
        };
    }
}

static struct hf_compared_side side_in(struct hf_keep *keep, const struct hf_json_value *finding,
                                       const char *key)
{
    const struct hf_json_value *side = hf_json_member(finding, key);
    const struct hf_json_value *python = hf_json_member(side, "python");
    const char *object = hf_json_text(side, "object"), *symbol = NULL;
    if (object != NULL && hf_report_calls_for_python(object) && python != NULL &&
        python->type == HF_JSON_ARRAY)
        symbol = hf_python_text(keep, hf_json_text(python->first, "function"),
                                hf_json_text(python->first, "file"));
    return (struct hf_compared_side){
        .object = object,
        .function = hf_json_text(side, "function"),
        .symbol = symbol != NULL ? symbol : hf_json_text(side, "symbol"),
    };
}

/* Result: NULL, or what is wrong. */
static const char *list_document(struct list *list, const struct hf_json_value *document)
{
    const uint64_t version = hf_json_number(document, "homefree_report");
    const struct hf_json_value *findings = hf_json_member(document, "findings");
    if (version == 0 || findings == NULL || findings->type != HF_JSON_ARRAY)
        return "it is neither a report nor a document of 'homefree report --json'";
    if (version > HF_REPORT_DOCUMENT)
        return "it was written by a newer homefree";
    for (const struct hf_json_value *finding = findings->first; finding != NULL;
         finding = finding->next) {
        const char *rule = hf_json_text(finding, "rule");
        const char *severity = hf_json_text(finding, "severity");
        if (rule == NULL || severity == NULL)
            return "a finding in it has no rule or no severity";
        *add(list) = (struct hf_compared){
            .rule = rule,
            .severity = severity,
            .allocator = hf_json_text(hf_json_member(finding, "allocated"), "allocator"),
            .allocated = side_in(list->keep, finding, "allocated"),
            .freed = side_in(list->keep, finding, "freed"),
            .before = hf_json_number(finding, "count"),
        };
    }
    return NULL;
}

/* Reads a whole regular file; NULL with the reason in `why`. */
static char *read_text(struct hf_keep *keep, const char *path, size_t *length, const char **why)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    char *text = NULL;
    *why = NULL;
    *length = 0;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        *why = strerror(errno);
    } else if (!S_ISREG(status.st_mode)) {
        *why = "it is not a regular file";
    } else if ((uint64_t)status.st_size > DOCUMENT_MAX) {
        *why = "it is too large";
    } else {
        text = hf_keep_bytes(keep, (size_t)status.st_size + 1);
        ssize_t got = 1;
        while (got > 0 && *length < (size_t)status.st_size) {
            got = read(descriptor, text + *length, (size_t)status.st_size - *length);
            *length += got > 0 ? (size_t)got : 0;
        }
        if (got < 0)
            *why = strerror(errno);
    }
    if (descriptor >= 0)
        close(descriptor);
    return *why == NULL ? text : NULL;
}

/* Whether the path holds reports rather than a document. */
static bool holds_reports(const char *path)
{
    struct stat status;
    char magic[sizeof HF_REPORT_MAGIC - 1] = "";
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return true;
    const ssize_t got = read(descriptor, magic, sizeof magic);
    close(descriptor);
    return got == sizeof magic && memcmp(magic, HF_REPORT_MAGIC, sizeof magic) == 0;
}

static bool list_old(struct list *list, const char *old)
{
    if (holds_reports(old)) {
        struct hf_merged *merged = hf_keep_bytes(list->keep, sizeof *merged);
        char *paths[] = {hf_keep_text(list->keep, old)};
        hf_merged_begin(merged, list->keep);
        if (!hf_report_read(merged, paths, 1))
            return false;
        hf_place_names_find(merged);
        list_merged(list, merged);
        for (size_t i = 0; i < list->count; i++) {
            list->items[i].before = list->items[i].after;
            list->items[i].after = 0;
        }
        return true;
    }
    size_t length;
    const char *why;
    const char *text = read_text(list->keep, old, &length, &why);
    if (text != NULL) {
        const struct hf_json_value *document = hf_json_read(list->keep, text, length);
        why = list_document(list, document);
    }
    if (why != NULL)
        hf_command_complain(who, "cannot compare with '%s': %s", old, why);
    return why == NULL;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* All that must agree. */
static int compare_fixed(const struct hf_compared *one, const struct hf_compared *other)
{
    return strcmp(one->rule, other->rule)
               ?: hf_order_texts(one->allocator, other->allocator)
               ?: hf_order_texts(one->allocated.object, other->allocated.object)
               ?: hf_order_texts(one->allocated.function, other->allocated.function)
               ?: hf_order_texts(one->freed.object, other->freed.object)
               ?: hf_order_texts(one->freed.function, other->freed.function);
}

static int compare_all(const void *left, const void *right)
{
    const struct hf_compared *one = left, *other = right;
    return compare_fixed(one, other)
               ?: hf_order_texts(one->allocated.symbol, other->allocated.symbol)
               ?: hf_order_texts(one->freed.symbol, other->freed.symbol);
}

/* Makes findings with the same key one. */
static void unite(struct list *list)
{
    size_t kept = 0;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare_all);
    for (size_t i = 0; i < list->count; i++) {
        const struct hf_compared item = list->items[i];
        if (kept > 0 && compare_all(&list->items[kept - 1], &item) == 0) {
            list->items[kept - 1].before += item.before;
            list->items[kept - 1].after += item.after;
        } else {
            list->items[kept++] = item;
        }
    }
    list->count = kept;
}

static bool may_be(const char *one, const char *other)
{
    return one == NULL || other == NULL || strcmp(one, other) == 0;
}

/* Takes old findings for new ones with which they agree but for what is unknown. Both lists are
 * sorted, so candidates lie side by side. */
static void match_unknown(struct list *list)
{
    for (size_t start = 0; start < list->count;) {
        size_t end = start + 1;
        while (end < list->count && compare_fixed(&list->items[start], &list->items[end]) == 0)
            end++;
        size_t from = start; /* the next candidate among those of the newer report */
        for (size_t i = start; i < end; i++) {
            struct hf_compared *old = &list->items[i];
            if (old->after != 0 || old->before == 0)
                continue;
            for (size_t n = from; n < end && n - from < CANDIDATES_MAX; n++) {
                struct hf_compared *item = &list->items[n];
                if (item->after == 0 || item->before != 0 ||
                    !may_be(old->allocated.symbol, item->allocated.symbol) ||
                    !may_be(old->freed.symbol, item->freed.symbol))
                    continue;
                item->before = old->before;
                old->before = 0; /* the item counts for both */
                from = n == from ? n + 1 : from;
                break;
            }
        }
        start = end;
    }
}

static enum hf_change change_of(const struct hf_compared *item)
{
    if (item->before == 0)
        return HF_CHANGE_NEW;
    if (item->after == 0)
        return HF_CHANGE_GONE;
    return item->after > item->before   ? HF_CHANGE_MORE
           : item->after < item->before ? HF_CHANGE_FEWER
                                        : HF_CHANGE_SAME;
}

static int severity_of(const struct hf_compared *item)
{
    return strcmp(item->severity, "error") == 0 ? 2 : strcmp(item->severity, "warning") == 0;
}

static int compare_changes(const void *left, const void *right)
{
    const struct hf_compared *one = left, *other = right;
    if (one->change != other->change)
        return one->change < other->change ? -1 : 1;
    if (severity_of(one) != severity_of(other))
        return severity_of(one) > severity_of(other) ? -1 : 1;
    const uint64_t one_count = one->after > one->before ? one->after : one->before;
    const uint64_t other_count = other->after > other->before ? other->after : other->before;
    if (one_count != other_count)
        return one_count > other_count ? -1 : 1;
    return compare_all(one, other);
}

bool hf_comparison_make(struct hf_comparison *comparison, const struct hf_merged *merged,
                        const char *old)
{
    *comparison = (struct hf_comparison){.old = old};
    struct list list = {.keep = merged->keep};
    if (!list_old(&list, old))
        return false;
    list_merged(&list, merged);
    unite(&list);
    match_unknown(&list);
    size_t kept = 0;
    for (size_t i = 0; i < list.count; i++) {
        struct hf_compared *item = &list.items[i];
        if (item->before == 0 && item->after == 0)
            continue;
        item->change = change_of(item);
        comparison->changes[item->change]++;
        if (item->change != HF_CHANGE_SAME)
            list.items[kept++] = *item;
    }
    if (kept > 1)
        qsort(list.items, kept, sizeof *list.items, compare_changes);
    comparison->items = list.items;
    comparison->items_count = kept;
    return true;
}

/* ---- the document --------------------------------------------------------------------------- */

static void write_side(struct hf_json *json, const char *key, const struct hf_compared_side *side)
{
    hf_json_object(json, key);
    hf_json_string(json, "object", side->object);
    hf_json_string(json, "function", side->function);
    hf_json_string(json, "symbol", side->symbol);
    hf_json_close(json);
}

void hf_comparison_write(struct hf_json *json, const struct hf_comparison *comparison)
{
    hf_json_object(json, "compare");
    hf_json_string(json, "old", comparison->old);
    for (int change = HF_CHANGE_NEW; change <= HF_CHANGE_GONE; change++) {
        hf_json_array(json, hf_change_name((enum hf_change)change));
        for (size_t i = 0; i < comparison->items_count; i++) {
            const struct hf_compared *item = &comparison->items[i];
            if (item->change != (enum hf_change)change)
                continue;
            hf_json_object(json, NULL);
            hf_json_string(json, "rule", item->rule);
            hf_json_string(json, "severity", item->severity);
            hf_json_string(json, "allocator", item->allocator);
            write_side(json, "allocated", &item->allocated);
            write_side(json, "freed", &item->freed);
            hf_json_unsigned(json, "count_before", item->before);
            hf_json_unsigned(json, "count", item->after);
            hf_json_close(json);
        }
        hf_json_close(json);
    }
    hf_json_close(json);
}
