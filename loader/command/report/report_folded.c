/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See report_folded.h. Lines with the same frames are one, and lines are sorted.
 */
#include "loader/command/report/report_folded.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Prints a frame's name: semicolons separate frames, and newlines lines. */
static void print_name(FILE *out, const char *name)
{
    fputc(';', out);
    for (; *name != '\0'; name++) {
        const unsigned char letter = (unsigned char)*name;
        fputc(letter == ';' ? ':' : letter < 0x20 || letter == 0x7f ? '?' : letter, out);
    }
}

static void print_place(FILE *out, struct hf_keep *keep, const struct hf_place *place)
{
    if (place == NULL)
        print_name(out, "unknown code");
    else if (place->symbol != NULL)
        print_name(out, place->symbol);
    else
        print_name(out, hf_keep_format(keep, "%s+0x%" PRIx64, hf_merged_name(place->object->path),
                                       place->offset));
}

static bool is_python(const struct hf_place *place)
{
    if (place == NULL)
        return false;
    const char *name = hf_merged_name(place->object->path);
    return strncmp(name, "libpython", 9) == 0 || strncmp(name, "python", 6) == 0;
}

/* Python's frames take the place of the interpreter's: the native stack is printed from the first
 * frame outside the interpreter inwards. */
static void print_side(FILE *out, struct hf_keep *keep, const struct hf_side *side,
                       const struct hf_trace *trace)
{
    size_t native = trace->native;
    for (size_t i = trace->python; i > 0; i--) {
        const struct hf_python_line *line = &trace->lines[i - 1];
        print_name(out,
                   hf_keep_format(keep, "%s (%s)", line->function != NULL ? line->function : "?",
                                  line->file != NULL ? hf_merged_name(line->file) : "?"));
    }
    if (trace->python > 0) {
        native = 0;
        while (native < trace->native && !is_python(trace->frames[native]))
            native++;
    }
    for (size_t i = native; i > 0; i--)
        print_place(out, keep, trace->frames[i - 1]);
    if (trace->native == 0 && side->place != NULL)
        print_place(out, keep, side->place);
    if (side->function != NULL)
        print_name(out, side->function);
}

struct folded {
    char *line;
    uint64_t count;
};

static int compare_lines(const void *left, const void *right)
{
    return strcmp(((const struct folded *)left)->line, ((const struct folded *)right)->line);
}

static char *fold(struct hf_keep *keep, const struct hf_merged_finding *finding)
{
    static const struct hf_side unknown;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        hf_keep_out_of_memory();
    fputs(hf_report_rule((uint32_t)finding->key.rule)->name, out);
    print_side(out, keep, &finding->key.allocated, &finding->allocated);
    if (memcmp(&finding->key.freed, &unknown, sizeof unknown) != 0 ||
        finding->freed.native + finding->freed.python > 0) {
        print_name(out,
                   hf_finding_is_access(&finding->key) ? "-- accessed by --" : "-- freed by --");
        print_side(out, keep, &finding->key.freed, &finding->freed);
    }
    const bool whole = ferror(out) == 0;
    if (fclose(out) != 0 || !whole)
        hf_keep_out_of_memory();
    char *kept = hf_keep_part(keep, text, length);
    free(text);
    return kept;
}

void hf_report_folded_write(FILE *out, const struct hf_merged *merged)
{
    const size_t count = merged->findings_count;
    struct folded *lines = hf_keep_bytes(merged->keep, count * sizeof *lines);
    for (size_t i = 0; i < count; i++)
        lines[i] =
            (struct folded){fold(merged->keep, merged->findings[i]), merged->findings[i]->count};
    if (count > 1)
        qsort(lines, count, sizeof *lines, compare_lines);
    for (size_t i = 0; i < count;) {
        uint64_t sum = 0;
        size_t next = i;
        for (; next < count && strcmp(lines[i].line, lines[next].line) == 0; next++)
            if (__builtin_add_overflow(sum, lines[next].count, &sum))
                sum = UINT64_MAX;
        fprintf(out, "%s %" PRIu64 "\n", lines[i].line, sum);
        i = next;
    }
}
