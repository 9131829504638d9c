/*
 * See report_text.h. Names come from outside and are printed with text.h. Long lines are wrapped
 * and long paths are cut in front where stdout is a terminal, whose width is known; elsewhere,
 * nothing is.
 */
#include "loader/command/report/report_text.h"

#include "loader/command/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    FINDINGS_MAX = 100, /* shown; the document has all */
    FRAMES_MAX = 10,    /* of each stack */
    PAIRS_MAX = 12,
    CHANGES_MAX = 50,
    SUPPRESSED_MAX = 20,
    WIDTH_MIN = 40,
    COLUMN_MIN = 8,
};

struct page {
    FILE *out;
    const struct hf_merged *merged;
    bool coloured;
    size_t width; /* of the terminal; 0: none */
};

static const char *style(const struct page *page, enum hf_text_style style)
{
    return hf_text_style(page->coloured, style);
}

static size_t terminal_width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (!isatty(STDOUT_FILENO))
        return 0;
    size_t width = columns != NULL ? strtoul(columns, NULL, 10) : 0;
    if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    return width == 0 ? 80 : width < WIDTH_MIN ? WIDTH_MIN : width;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Prints text with lines of the page's width, all but the first indented. `at`: the column. */
static void print_wrapped(const struct page *page, const char *text, size_t at, size_t indent)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (page->width != 0 && at > indent && at + 1 + length > page->width) {
            fprintf(page->out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', page->out);
            at++;
        }
        fwrite(text, 1, length, page->out);
        at += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', page->out);
}

/* Prints a path; the end of it where more than `most` bytes are too many. 0: all. Returns the
 * bytes. */
static size_t print_path(FILE *out, const char *path, size_t most)
{
    const size_t length = strlen(path);
    if (most == 0 || length <= most) {
        hf_text_print(out, path);
        return length;
    }
    const char *end = path + length - (most - 3);
    while ((*end & 0xc0) == 0x80) /* inside a character */
        end++;
    fputs("...", out);
    hf_text_print(out, end);
    return 3 + strlen(end);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- the sentence --------------------------------------------------------------------------- */

static void print_counts(FILE *out, const struct hf_rule_totals *totals)
{
    bool first = true;
    for (int severity = HF_SEVERITY_ERROR; severity >= HF_SEVERITY_NOTE; severity--) {
        const size_t count = totals->severities[severity];
        if (count == 0)
            continue;
        fprintf(out, "%s%zu %s%s", first ? "" : ", ", count,
                hf_severity_name((enum hf_severity)severity), plural(count));
        first = false;
    }
}

static void print_summary(const struct page *page, const struct hf_rule_totals *totals)
{
    const struct hf_merged *merged = page->merged;
    const size_t processes = merged->processes_count;
    uint64_t blocks = 0, crossed = 0;
    bool only_counted = true; /* no process looked for anything else */
    for (size_t i = 0; i < processes; i++) {
        __builtin_add_overflow(blocks, merged->processes[i]->blocks, &blocks);
        only_counted = only_counted && merged->processes[i]->header.mode == HF_REPORT_COUNT;
    }
    for (size_t i = 0; i < merged->pairs_count; i++) {
        const struct hf_merged_pair *pair = merged->pairs[i];
        if (pair->key.allocated != pair->key.freed)
            __builtin_add_overflow(crossed, pair->blocks, &crossed);
    }
    fputs(style(page, HF_TEXT_BOLD), page->out);
    if (merged->findings_count == 0) {
        fprintf(page->out, "%s in %zu process%s", only_counted ? "Blocks counted" : "Nothing found",
                processes, processes == 1 ? "" : "es");
        fprintf(page->out, ": %" PRIu64 " blocks allocated, %" PRIu64 " freed by another object.",
                blocks, crossed);
    } else {
        const struct hf_merged_finding *worst = merged->findings[0];
        print_counts(page->out, totals);
        fprintf(page->out, " in %zu process%s; the worst is %s, %" PRIu64 " time%s.", processes,
                processes == 1 ? "" : "es", hf_report_rule((uint32_t)worst->key.rule)->name,
                worst->count, plural(worst->count));
    }
    fprintf(page->out, "%s\n", style(page, HF_TEXT_PLAIN));
}

static void print_gaps(const struct page *page)
{
    const struct hf_merged *merged = page->merged;
    size_t truncated = 0;
    uint64_t dropped = 0;
    for (size_t i = 0; i < merged->processes_count; i++) {
        truncated += merged->processes[i]->truncated;
        if (__builtin_add_overflow(dropped, merged->processes[i]->header.dropped, &dropped))
            dropped = UINT64_MAX;
    }
    if (truncated > 0)
        fprintf(page->out, "%zu file%s cut short or damaged; what could be read is shown.\n",
                truncated, truncated == 1 ? " is" : "s are");
    if (dropped > 0)
        fprintf(page->out,
                "%" PRIu64 " event%s not recorded, because there was no room for them.\n", dropped,
                dropped == 1 ? " was" : "s were");
    if (merged->left_out > 0)
        fprintf(page->out,
                "%" PRIu64 " process%s left out: the folder was full, or the file could not be "
                "read.\n",
                merged->left_out, merged->left_out == 1 ? " is" : "es are");
}

/* ---- findings ------------------------------------------------------------------------------- */

static const struct hf_object *object_of(const struct hf_side *side)
{
    return side->place != NULL ? side->place->object : NULL;
}

static bool same_group(const struct hf_merged_finding *one, const struct hf_merged_finding *other)
{
    return one->key.allocator == other->key.allocator &&
           one->key.allocator_object == other->key.allocator_object &&
           object_of(&one->key.freed) == object_of(&other->key.freed);
}

/* "make_table (table.c:12) in libx.so", or what is known of it. */
static void print_place(FILE *out, const struct hf_place *place)
{
    if (place == NULL) {
        fputs("unknown code", out);
        return;
    }
    if (place->symbol != NULL)
        hf_text_print(out, place->symbol);
    else
        fprintf(out, "0x%" PRIx64, place->offset);
    if (place->file != NULL) {
        fputs(" (", out);
        hf_text_print(out, hf_merged_name(place->file));
        fprintf(out, ":%u)", place->line);
    }
    fputs(" in ", out);
    hf_text_print(out, hf_merged_name(place->object->path));
}

static void print_side(const struct page *page, const char *what, const struct hf_side *side)
{
    if (side->place == NULL && side->function == NULL)
        return;
    fprintf(page->out, "    %-11s ", what);
    print_place(page->out, side->place);
    if (side->function != NULL)
        fprintf(page->out, ", with %s", side->function);
    if (side->python != NULL) {
        fputs(", called by ", page->out);
        hf_text_print(page->out, side->python);
        fprintf(page->out, ":%" PRIu64, side->line);
    }
    fputc('\n', page->out);
}

static void print_trace(const struct page *page, const char *what, const struct hf_trace *trace)
{
    if (trace->native + trace->python == 0)
        return;
    fprintf(page->out, "    %sstack of the %s%s\n", style(page, HF_TEXT_DIM), what,
            style(page, HF_TEXT_PLAIN));
    for (size_t i = 0; i < trace->python && i < FRAMES_MAX; i++) {
        const struct hf_python_line *line = &trace->lines[i];
        fputs("      Python  ", page->out);
        hf_text_print(page->out, line->function != NULL ? line->function : "?");
        fputs(" (", page->out);
        hf_text_print(page->out, line->file != NULL ? line->file : "?");
        fprintf(page->out, ":%u)\n", line->line);
    }
    if (trace->python > FRAMES_MAX)
        fprintf(page->out, "      ... %zu more\n", trace->python - FRAMES_MAX);
    for (size_t i = 0; i < trace->native && i < FRAMES_MAX; i++) {
        fputs("      ", page->out);
        print_place(page->out, trace->frames[i]);
        fputc('\n', page->out);
    }
    if (trace->native > FRAMES_MAX)
        fprintf(page->out, "      ... %zu more\n", trace->native - FRAMES_MAX);
}

static void print_finding(const struct page *page, const struct hf_merged_finding *finding)
{
    const struct hf_finding_key *key = &finding->key;
    const struct hf_rule_text *rule = hf_report_rule((uint32_t)key->rule);
    char size[HF_TEXT_BYTES];
    fprintf(page->out, "  %s%-7s%s  %s  %" PRIu64 " time%s",
            style(page, (enum hf_text_style)rule->severity), hf_severity_name(rule->severity),
            style(page, HF_TEXT_PLAIN), rule->name, finding->count, plural(finding->count));
    if (finding->bytes > 0)
        fprintf(page->out, ", %s", hf_text_bytes(finding->bytes, size));
    if (finding->asked != 0 && finding->said != 0)
        fprintf(page->out, "; allocated with %" PRIu64 ", freed with %" PRIu64, finding->asked,
                finding->said);
    if (key->rule == HF_FAULT_INTERPRETER_LEAK)
        fprintf(page->out, "; first in interpreter %" PRIu64, finding->said);
    fputc('\n', page->out);
    print_side(page, "allocated", &key->allocated);
    const bool access = hf_finding_is_access(key), twice = key->rule == HF_FAULT_DOUBLE_FREE;
    const bool leak = key->rule == HF_FAULT_BOUNDARY_LEAK;
    print_side(page, twice ? "freed first" : (leak ? "others freed" : "freed"), &key->first_freed);
    print_side(page, access ? "accessed" : (twice ? "freed again" : "freed"), &key->freed);
    const char *without = hf_merged_without(page->merged, finding);
    if (without != NULL) {
        static const char start[] = "    without homefree: ";
        fputs(start, page->out);
        print_wrapped(page, without, sizeof start - 1, sizeof start - 1);
    }
    print_trace(page, "allocation", &finding->allocated);
    print_trace(page, access ? "free" : "first free", &finding->first_freed);
    print_trace(page, access ? "access" : "free", &finding->freed);
}

static void print_group_title(const struct page *page, const struct hf_merged_finding *finding)
{
    const struct hf_finding_key *key = &finding->key;
    const struct hf_object *freer = object_of(&key->freed);
    fprintf(page->out, "\n%s", style(page, HF_TEXT_BOLD));
    if (key->allocator != NULL) {
        fputs(strcmp(key->allocator, "heap") == 0 ? "Blocks of the " : "Blocks of ", page->out);
        hf_text_print(page->out, key->allocator);
    } else {
        fputs("Blocks of an unknown allocator", page->out);
    }
    if (key->allocator_object != NULL) {
        fputs(" in ", page->out);
        print_path(page->out, key->allocator_object, page->width != 0 ? page->width / 3 : 0);
    }
    if (freer != NULL) {
        fputs(hf_finding_is_access(key) ? ", accessed by " : ", freed by ", page->out);
        print_path(page->out, freer->path, page->width != 0 ? page->width / 3 : 0);
    }
    fprintf(page->out, "%s\n", style(page, HF_TEXT_PLAIN));
}

static void print_findings(const struct page *page)
{
    const struct hf_merged *merged = page->merged;
    const size_t most =
        merged->findings_count < FINDINGS_MAX ? merged->findings_count : (size_t)FINDINGS_MAX;
    bool done[FINDINGS_MAX] = {false};
    for (size_t i = 0; i < most; i++) {
        if (done[i])
            continue;
        print_group_title(page, merged->findings[i]);
        for (size_t n = i; n < most; n++) {
            if (done[n] || !same_group(merged->findings[i], merged->findings[n]))
                continue;
            done[n] = true;
            print_finding(page, merged->findings[n]);
        }
    }
    if (merged->findings_count > most)
        fprintf(page->out, "\n%zu more findings; --json and --html show all.\n",
                merged->findings_count - most);
}

static void print_suppressed(const struct page *page)
{
    const struct hf_merged *merged = page->merged;
    if (merged->suppressed_count == 0)
        return;
    fprintf(page->out, "\n%sSuppressed%s\n", style(page, HF_TEXT_BOLD), style(page, HF_TEXT_PLAIN));
    for (size_t i = 0; i < merged->suppressed_count && i < SUPPRESSED_MAX; i++) {
        const struct hf_merged_suppression *item = merged->suppressed[i];
        fprintf(page->out, "  %" PRIu64 " time%s  ", item->count, plural(item->count));
        hf_text_print(page->out, item->key.pattern != NULL ? item->key.pattern : "unknown");
        if (item->key.why != NULL) {
            fputs("  (", page->out);
            hf_text_print(page->out, item->key.why);
            fputc(')', page->out);
        }
        fputc('\n', page->out);
    }
    if (merged->suppressed_count > SUPPRESSED_MAX)
        fprintf(page->out, "  ... %zu more\n", merged->suppressed_count - SUPPRESSED_MAX);
}

/* ---- matrix --------------------------------------------------------------------------------- */

/* The largest pairs, those of different objects first. Returns their number. */
static size_t choose_pairs(const struct hf_merged *merged, const struct hf_merged_pair **pairs)
{
    size_t count = 0;
    for (int same = 0; same < 2; same++)
        for (size_t i = 0; i < merged->pairs_count && count < PAIRS_MAX; i++) {
            const struct hf_merged_pair *pair = merged->pairs[i];
            if ((pair->key.allocated == pair->key.freed) == (same == 1))
                pairs[count++] = pair;
        }
    return count;
}

static void print_matrix(const struct page *page)
{
    static const char titles[] = "      blocks        bytes  threads  ";
    const struct hf_merged *merged = page->merged;
    if (merged->pairs_count == 0)
        return;
    const struct hf_merged_pair *pairs[PAIRS_MAX];
    const size_t most = choose_pairs(merged, pairs);
    const size_t fixed = sizeof titles - 1 + 2;
    size_t column = page->width > fixed ? (page->width - fixed) / 2 : 0;
    if (page->width != 0 && column < COLUMN_MIN)
        column = COLUMN_MIN;
    size_t widest = strlen("allocated by");
    for (size_t i = 0; i < most; i++) {
        const char *path = pairs[i]->key.allocated;
        const size_t length = path != NULL ? strlen(path) : 0;
        widest = length > widest ? length : widest;
    }
    if (column != 0 && widest > column)
        widest = column;
    fprintf(page->out, "\n%sWho frees whose blocks%s\n%s%-*s  freed by\n",
            style(page, HF_TEXT_BOLD), style(page, HF_TEXT_PLAIN), titles, (int)widest,
            "allocated by");
    for (size_t i = 0; i < most; i++) {
        const struct hf_merged_pair *pair = pairs[i];
        const char *allocated = pair->key.allocated != NULL ? pair->key.allocated : "unknown";
        const char *freed = pair->key.freed != NULL ? pair->key.freed : "unknown";
        char size[HF_TEXT_BYTES];
        fprintf(page->out, "%12" PRIu64 "  %11s  %7" PRIu64 "  ", pair->blocks,
                hf_text_bytes(pair->bytes, size), pair->threads);
        const size_t printed = print_path(page->out, allocated, column);
        fprintf(page->out, "%*s", printed < widest ? (int)(widest - printed + 2) : 2, "");
        print_path(page->out, freed, column);
        fputc('\n', page->out);
    }
    if (merged->pairs_count > most)
        fprintf(page->out, "%12s  %zu more\n", "...", merged->pairs_count - most);
}

/* ---- changes -------------------------------------------------------------------------------- */

static void print_compared_side(FILE *out, const struct hf_compared_side *side)
{
    if (side->symbol != NULL) {
        hf_text_print(out, side->symbol);
        fputs(" in ", out);
    }
    hf_text_print(out, side->object != NULL ? hf_merged_name(side->object) : "unknown code");
}

static void print_changes(const struct page *page, const struct hf_comparison *comparison)
{
    fprintf(page->out, "\n%sSince ", style(page, HF_TEXT_BOLD));
    hf_text_print(page->out, comparison->old);
    fprintf(page->out, ": %zu new, %zu gone, %zu more often, %zu less often, %zu the same%s\n",
            comparison->changes[HF_CHANGE_NEW], comparison->changes[HF_CHANGE_GONE],
            comparison->changes[HF_CHANGE_MORE], comparison->changes[HF_CHANGE_FEWER],
            comparison->changes[HF_CHANGE_SAME], style(page, HF_TEXT_PLAIN));
    for (size_t i = 0; i < comparison->items_count && i < CHANGES_MAX; i++) {
        const struct hf_compared *item = &comparison->items[i];
        fprintf(page->out, "  %-5s  ", hf_change_name(item->change));
        hf_text_print(page->out, item->rule);
        fprintf(page->out, "  %" PRIu64 " -> %" PRIu64 "  allocated by ", item->before,
                item->after);
        print_compared_side(page->out, &item->allocated);
        fputs(", freed by ", page->out);
        print_compared_side(page->out, &item->freed);
        fputc('\n', page->out);
    }
    if (comparison->items_count > CHANGES_MAX)
        fprintf(page->out, "  ... %zu more\n", comparison->items_count - CHANGES_MAX);
}

/* ---- the page ------------------------------------------------------------------------------- */

static void print_remedies(const struct page *page, const struct hf_rule_totals *totals)
{
    if (page->merged->findings_count == 0)
        return;
    fputc('\n', page->out);
    hf_findings_remedies(page->out, &hf_report_rules, totals);
}

void hf_report_text_print(FILE *out, const struct hf_merged *merged,
                          const struct hf_comparison *comparison)
{
    const struct page page = {
        .out = out,
        .merged = merged,
        .coloured = hf_text_coloured(),
        .width = terminal_width(),
    };
    const struct hf_rule_totals totals = hf_merged_totals(merged);
    print_summary(&page, &totals);
    print_gaps(&page);
    print_findings(&page);
    print_suppressed(&page);
    print_matrix(&page);
    if (comparison != NULL)
        print_changes(&page, comparison);
    print_remedies(&page, &totals);
}
