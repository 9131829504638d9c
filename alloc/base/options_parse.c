/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses HOMEFREE_CONF; see options_parse.h. May run before constructors, so it uses neither the
 * heap nor stdio streams.
 */
#include "alloc/base/options_parse.h"

#include "alloc/base/fatal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const size_t offsets[] = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) \
    offsetof(struct hf_options, name),
#include "alloc/base/options.def"
#undef HF_OPTION
};

/* A part of the configuration string. */
struct span {
    const char *start;
    size_t length;
};

static bool span_is(struct span span, const char *word)
{
    return strlen(word) == span.length && memcmp(word, span.start, span.length) == 0;
}

static bool parse_choice(struct span value, const struct hf_option_choice *choice, uint64_t *out)
{
    for (size_t i = 0; i < choice->count; i++)
        if (span_is(value, choice->words[i])) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse_number(struct span value, bool with_suffix, uint64_t *out)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < value.length && value.start[i] >= '0' && value.start[i] <= '9'; i++) {
        unsigned digit = (unsigned)(value.start[i] - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (i == 0)
        return false;
    if (with_suffix && i + 1 == value.length) {
        static const char suffixes[] = "KMGT";
        const char *suffix = strchr(suffixes, toupper((unsigned char)value.start[i]));
        if (suffix == NULL || *suffix == '\0')
            return false;
        unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);
        if (number > UINT64_MAX >> shift)
            return false;
        number <<= shift;
        i++;
    }
    *out = number;
    return i == value.length;
}

/* Patterns are told from words that nobody knows by characters that a file's name or a pattern of
 * several has. */
static bool parse_patterns(struct span value, struct hf_options *options, uint64_t *out)
{
    bool is_pattern = false;
    for (size_t i = 0; i < value.length; i++)
        is_pattern |= strchr("./*?[", value.start[i]) != NULL;
    if (!is_pattern || value.length >= sizeof options->adopt_patterns)
        return false;
    memset(options->adopt_patterns, 0, sizeof options->adopt_patterns);
    memcpy(options->adopt_patterns, value.start, value.length);
    *out = HF_ADOPT_PATTERNS;
    return true;
}

/* A relative path would name another file in another directory, and a bare name is searched for. */
static bool parse_path(struct span value, char path[HF_PATH_MAX], uint64_t *out)
{
    if (value.length == 0 || value.start[0] != '/' || value.length >= HF_PATH_MAX)
        return false;
    memset(path, 0, HF_PATH_MAX);
    memcpy(path, value.start, value.length);
    *out = HF_FILE_PATH;
    return true;
}

static bool parse_value(const struct hf_option_row *row, struct span value,
                        struct hf_options *options, uint64_t *out)
{
    uint64_t number = 0;
    bool parsed;
    const struct hf_option_choice *choice = hf_option_choice_of(row);
    if (strcmp(row->type, "adoption") == 0)
        parsed = (parse_choice(value, choice, &number) && number != HF_ADOPT_PATTERNS) ||
                 parse_patterns(value, options, &number);
    else if (strcmp(row->type, "file") == 0)
        parsed = (parse_choice(value, choice, &number) && number != HF_FILE_PATH) ||
                 parse_path(value, options->cuda_path, &number);
    else if (strcmp(row->type, "output") == 0)
        parsed = (parse_choice(value, choice, &number) && number != HF_FILE_PATH) ||
                 parse_path(value, options->last_words_path, &number);
    else if (choice != NULL)
        parsed = parse_choice(value, choice, &number);
    else
        parsed = parse_number(value, strcmp(row->type, "size") == 0, &number);
    if (!parsed || number < row->minimum || number > row->maximum)
        return false;
    *out = number;
    return true;
}

/* How much of a key or value a warning quotes. */
#define SHOWN_MAX 64

static int shown_of(struct span span)
{
    return span.length < SHOWN_MAX ? (int)span.length : SHOWN_MAX;
}

static void warn_key(struct span key)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text, "HOMEFREE_CONF: unknown key '%.*s' is ignored; the keys are", shown_of(key),
                key.start);
    for (size_t i = 0; i < COUNT(offsets); i++)
        hf_text_say(&text, "%s%s", i == 0 ? " " : ", ", hf_option_row(i)->name);
    hf_text_write(&text);
}

/* As users write it: "16M". */
static void add_bound(struct hf_text *text, uint64_t bound, bool is_size)
{
    static const char suffixes[] = "KMGT";
    size_t steps = 0;
    for (; is_size && bound != 0 && bound % 1024 == 0 && steps < sizeof suffixes - 1; steps++)
        bound /= 1024;
    hf_text_add_decimal(text, (intmax_t)bound);
    if (steps != 0)
        hf_text_add_n(text, &suffixes[steps - 1], 1);
}

static void warn_value(const struct hf_option_row *row, struct span value)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text, "HOMEFREE_CONF: value '%.*s' of %s is ignored; it takes %s", shown_of(value),
                value.start, row->name, row->unit);
    const bool is_size = strcmp(row->type, "size") == 0;
    if (is_size || strcmp(row->type, "number") == 0) {
        hf_text_add(&text, " from ");
        add_bound(&text, row->minimum, is_size);
        hf_text_add(&text, " to ");
        add_bound(&text, row->maximum, is_size);
    }
    hf_text_write(&text);
}

static void parse_pair(struct span pair, struct hf_options *out)
{
    const char *colon = memchr(pair.start, ':', pair.length);
    struct span key = {pair.start, colon != NULL ? (size_t)(colon - pair.start) : pair.length};
    struct span value = {colon != NULL ? colon + 1 : pair.start + pair.length,
                         colon != NULL ? pair.length - key.length - 1 : 0};
    for (size_t i = 0; i < COUNT(offsets); i++) {
        if (!span_is(key, hf_option_row(i)->name))
            continue;
        const struct hf_option_row *row = hf_option_row(i);
        if (!parse_value(row, value, out, (uint64_t *)((char *)out + offsets[i])))
            warn_value(row, value);
        return;
    }
    warn_key(key);
}

void hf_options_parse(const char *configuration, struct hf_options *out)
{
    while (*configuration != '\0') {
        size_t length = strcspn(configuration, ",");
        if (length > 0)
            parse_pair((struct span){configuration, length}, out);
        configuration += length;
        configuration += *configuration == ',';
    }
}

void hf_options_read(void)
{
    const char *configuration = secure_getenv("HOMEFREE_CONF");
    if (configuration != NULL)
        hf_options_parse(configuration, &hf_options);
}
