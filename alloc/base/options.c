/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options in force, and their table as data. Owns hf_options, which the start of the heap
 * writes once and which is read-only afterwards; no lock. Any stage. It needs libc alone: the
 * command `homefree` is linked with it too.
 */
#include "alloc/base/options.h"

#include "alloc/base/base_name.h"

#include <fnmatch.h>
#include <stdio.h>
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

static const char *const thp_choices[] = {"default", "always", "never"};
static const char *const toggle_choices[] = {"off", "on"};
static const char *const adoption_choices[] = {"none", "all", "PATTERNS"};
static const char *const reaction_choices[] = {"fatal", "ignore"};
static const char *const homeless_choices[] = {"fatal", "leak"};
static const char *const checks_choices[] = {"default", "hardened", "full"};
static const char *const ondemand_choices[] = {"auto", "on", "off"};
static const char *const file_choices[] = {"auto", "PATH"};
static const char *const output_choices[] = {"off", "PATH"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Option types whose values are words. */
static const struct hf_option_choice choices[] = {
    {"thp", thp_choices, COUNT(thp_choices)},
    {"toggle", toggle_choices, COUNT(toggle_choices)},
    {"adoption", adoption_choices, COUNT(adoption_choices)},
    {"reaction", reaction_choices, COUNT(reaction_choices)},
    {"homeless", homeless_choices, COUNT(homeless_choices)},
    {"checks", checks_choices, COUNT(checks_choices)},
    {"ondemand", ondemand_choices, COUNT(ondemand_choices)},
    {"file", file_choices, COUNT(file_choices)},
    {"output", output_choices, COUNT(output_choices)},
};

const struct hf_option_choice *hf_option_choice_of(const struct hf_option_row *row)
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
    const struct hf_option_choice *choice = hf_option_choice_of(row);
    if (choice != NULL) {
        snprintf(out, size, "%s", choice->words[value]);
        return;
    }
    for (; strcmp(row->type, "size") == 0 && value > 0 && value % 1024 == 0 && suffix < 4; suffix++)
        value /= 1024;
    snprintf(out, size, "%llu%.1s", (unsigned long long)value, suffixes + suffix);
}

bool hf_options_adopt(const struct hf_options *options, const char *path)
{
    char pattern[HF_PATTERNS_MAX];
    if (options->adopt != HF_ADOPT_PATTERNS)
        return options->adopt == HF_ADOPT_ALL;
    const char *name = hf_base_name(path);
    for (const char *at = options->adopt_patterns; *at != '\0'; at += *at == ':') {
        const size_t length = strcspn(at, ":");
        memcpy(pattern, at, length);
        pattern[length] = '\0';
        at += length;
        if (length > 0 && fnmatch(pattern, strchr(pattern, '/') != NULL ? path : name, 0) == 0)
            return true;
    }
    return false;
}
