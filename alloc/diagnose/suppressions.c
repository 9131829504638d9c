/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of suppressions, whose text is the file's contents in memory. See suppressions.h.
 */
#include "alloc/diagnose/suppressions.h"

#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 64 * 1024, SUPPRESSIONS_MAX = 256, PATTERN_MAX = 1024 };

static char contents[TEXT_MAX + 1];
static struct suppression {
    const char *rule, *allocated, *freed, *why;
    struct hf_report_suppressed *record; /* once it has matched */
} suppressions[SUPPRESSIONS_MAX];
static size_t suppression_count;

/* ---- reading ---- */

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t\r");
}

/* Cuts the next word off; NULL if there is none. */
static char *take_word(char **at)
{
    char *word = skip_blanks(*at);
    size_t length = strcspn(word, " \t\r");
    if (length == 0 || word[0] == '#')
        return NULL;
    *at = word + length;
    if (**at != '\0')
        *(*at)++ = '\0';
    return word;
}

static bool read_line(char *at)
{
    at = skip_blanks(at);
    if (*at == '\0' || *at == '#')
        return true;
    if (suppression_count == SUPPRESSIONS_MAX)
        return false;
    struct suppression *next = &suppressions[suppression_count];
    next->rule = take_word(&at);
    next->allocated = take_word(&at);
    next->freed = take_word(&at);
    at = skip_blanks(at);
    if (next->freed == NULL || (*at != '\0' && *at != '#'))
        return false;
    next->why = *at == '#' ? skip_blanks(at + 1) : "";
    suppression_count++;
    return true;
}

int hf_suppressions_read(const char *path, unsigned *line)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *line = 0;
    if (file < 0)
        return -errno;
    ssize_t length =
        fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? read(file, contents, TEXT_MAX) : -1;
    int error = length >= 0 ? 0 : EINVAL;
    (void)close(file);
    if (error != 0)
        return -error;
    contents[length] = '\0';
    for (char *at = contents, *next; at != NULL; at = next) {
        next = strchr(at, '\n');
        if (next != NULL)
            *next++ = '\0';
        ++*line;
        if (!read_line(at))
            return -EINVAL;
    }
    return 0;
}

/* ---- matching ---- */

/* '*' stands for any text. Linear in the product of the lengths, without recursion. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static void count(struct suppression *suppression)
{
    if (!hf_report_lock())
        return;
    if (suppression->record == NULL) {
        char text[PATTERN_MAX];
        int length = snprintf(text, sizeof text, "%s %s %s", suppression->rule,
                              suppression->allocated, suppression->freed);
        if (length < 0 || length >= PATTERN_MAX)
            length = (int)strnlen(text, PATTERN_MAX - 1);
        uint32_t pattern = hf_report_string(text, (size_t)length, NULL);
        uint32_t why = hf_report_string(suppression->why, strlen(suppression->why), NULL);
        struct hf_report_suppressed *record =
            hf_report_add(HF_REPORT_SUPPRESSED, sizeof *record, NULL);
        if (record != NULL) {
            record->pattern = pattern;
            record->why = why;
            hf_report_publish(HF_REPORT_SUPPRESSED, sizeof *record);
            suppression->record = record;
        }
    }
    if (suppression->record != NULL)
        suppression->record->count++;
    hf_report_unlock();
}

bool hf_suppressed(const char *rule, const struct hf_event *event)
{
    if (suppression_count == 0)
        return false;
    const char *freed = hf_site_object_path(event->freed_site);
    const char *allocated = event->allocated_site != 0 ? hf_site_object_path(event->allocated_site)
                                                       : event->allocator_object;
    if (allocated == NULL)
        allocated = "";
    for (size_t i = 0; i < suppression_count; i++)
        if (matches(suppressions[i].rule, rule) && matches(suppressions[i].allocated, allocated) &&
            matches(suppressions[i].freed, freed)) {
            count(&suppressions[i]);
            return true;
        }
    return false;
}

void hf_suppressions_in_child(void)
{
    for (size_t i = 0; i < suppression_count; i++)
        suppressions[i].record = NULL;
}
