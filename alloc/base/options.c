/*
 * Parses HOMEFREE_CONF. Owns hf_options, which the start of the heap writes once and which is
 * read-only afterwards; no lock. May run before constructors, so it uses neither the heap nor stdio
 * streams.
 */
#include "alloc/base/options.h"

#include "alloc/base/fatal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hf_options hf_options = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) .name = (preset),
#include "alloc/base/options.def"
#undef HF_OPTION
};

static const struct hf_option_row rows[] = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) \
    {#name, #type, unit, help, preset, minimum, maximum},
#include "alloc/base/options.def"
#undef HF_OPTION
};

static const size_t offsets[] = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) \
    offsetof(struct hf_options, name),
#include "alloc/base/options.def"
#undef HF_OPTION
};

static const char *const thp_choices[] = {"default", "always", "never"};
static const char *const toggle_choices[] = {"off", "on"};
static const char *const reaction_choices[] = {"fatal", "ignore"};
static const char *const checks_choices[] = {"default", "full"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Option types whose values are words. */
static const struct choice {
    const char *type;
    const char *const *words;
    size_t count;
} choices[] = {
    {"thp", thp_choices, COUNT(thp_choices)},
    {"toggle", toggle_choices, COUNT(toggle_choices)},
    {"reaction", reaction_choices, COUNT(reaction_choices)},
    {"checks", checks_choices, COUNT(checks_choices)},
};

static const struct choice *choice_of(const struct hf_option_row *row)
{
    for (size_t i = 0; i < COUNT(choices); i++)
        if (strcmp(row->type, choices[i].type) == 0)
            return &choices[i];
    return NULL;
}

const struct hf_option_row *hf_option_row(size_t index)
{
    return index < COUNT(rows) ? &rows[index] : NULL;
}

void hf_option_preset(const struct hf_option_row *row, char *out, size_t size)
{
    static const char suffixes[] = "\0KMGT";
    unsigned suffix = 0;
    uint64_t value = row->preset;
    const struct choice *choice = choice_of(row);
    if (choice != NULL) {
        snprintf(out, size, "%s", choice->words[value]);
        return;
    }
    for (; strcmp(row->type, "size") == 0 && value > 0 && value % 1024 == 0 && suffix < 4; suffix++)
        value /= 1024;
    snprintf(out, size, "%llu%.1s", (unsigned long long)value, suffixes + suffix);
}

/* A part of the configuration string. */
struct span {
    const char *start;
    size_t length;
};

static bool span_is(struct span span, const char *word)
{
    return strlen(word) == span.length && memcmp(word, span.start, span.length) == 0;
}

static bool parse_choice(struct span value, const struct choice *choice, uint64_t *out)
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

static bool parse_value(const struct hf_option_row *row, struct span value, uint64_t *out)
{
    uint64_t number = 0;
    bool parsed;
    const struct choice *choice = choice_of(row);
    if (choice != NULL)
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

static void warn_key(struct span key)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "HOMEFREE_CONF: unknown key '");
    hf_text_add_n(&text, key.start, key.length < SHOWN_MAX ? key.length : SHOWN_MAX);
    hf_text_add(&text, "' is ignored; the keys are");
    for (size_t i = 0; i < COUNT(rows); i++) {
        hf_text_add(&text, i == 0 ? " " : ", ");
        hf_text_add(&text, rows[i].name);
    }
    hf_text_write(&text);
}

static void warn_value(const struct hf_option_row *row, struct span value)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "HOMEFREE_CONF: value '");
    hf_text_add_n(&text, value.start, value.length < SHOWN_MAX ? value.length : SHOWN_MAX);
    hf_text_add(&text, "' of ");
    hf_text_add(&text, row->name);
    hf_text_add(&text, " is ignored; it takes ");
    hf_text_add(&text, row->unit);
    if (strcmp(row->type, "size") == 0 || strcmp(row->type, "number") == 0) {
        hf_text_add(&text, " from ");
        hf_text_add_decimal(&text, (intmax_t)row->minimum);
        hf_text_add(&text, " to ");
        hf_text_add_decimal(&text, (intmax_t)row->maximum);
    }
    hf_text_write(&text);
}

static void parse_pair(struct span pair, struct hf_options *out)
{
    const char *colon = memchr(pair.start, ':', pair.length);
    struct span key = {pair.start, colon != NULL ? (size_t)(colon - pair.start) : pair.length};
    struct span value = {colon != NULL ? colon + 1 : pair.start + pair.length,
                         colon != NULL ? pair.length - key.length - 1 : 0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!span_is(key, rows[i].name))
            continue;
        if (!parse_value(&rows[i], value, (uint64_t *)((char *)out + offsets[i])))
            warn_value(&rows[i], value);
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

void hf_options_for_jemalloc(const struct hf_options *options, char *buffer, size_t size)
{
    int length = snprintf(buffer, size,
                          "dirty_decay_ms:%llu,muzzy_decay_ms:%llu,tcache_max:%llu,thp:%s,"
                          "zero_realloc:free,background_thread:false,oversize_threshold:%zu%s",
                          (unsigned long long)options->dirty_decay_ms,
                          (unsigned long long)options->muzzy_decay_ms,
                          (unsigned long long)options->tcache_max, thp_choices[options->thp],
                          HF_OVERSIZE, options->checks != 0 ? ",tcache:false" : "");
    if (options->arenas != 0 && length > 0 && (size_t)length < size)
        snprintf(buffer + length, size - (size_t)length, ",narenas:%llu",
                 (unsigned long long)options->arenas);
}
