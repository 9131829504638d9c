/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See script.h.
 */
#include "loader/command/program/script.h"

#include <string.h>

/* ---- the kernel's part ---------------------------------------------------------------------- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

static const char *find_blank(const char *at, const char *end)
{
    while (at < end && !is_blank(*at) && *at != '\0')
        at++;
    return at;
}

static void copy(char *out, const char *from, const char *to)
{
    const size_t length = strnlen(from, (size_t)(to - from));
    memcpy(out, from, length);
    out[length] = '\0';
}

bool hf_script_read(const char *bytes, size_t size, struct hf_script *out)
{
    char line[HF_SCRIPT_LINE] = {0};
    memcpy(line, bytes, size < sizeof line ? size : sizeof line);
    if (line[0] != '#' || line[1] != '!')
        return false;
    const char *const begin = line + 2, *const last = line + sizeof line - 1;
    const char *end = memchr(line, '\n', strnlen(line, sizeof line));
    if (end == NULL) {
        /* The line is longer than what the kernel reads. It then takes the argument as it is, but
         * no interpreter that may be cut short. */
        const char *name = skip_blanks(begin, last);
        if (is_blank(*name))
            return false;
        name = find_blank(name, last);
        if (name == last && *last != '\0' && !is_blank(*last))
            return false;
        end = last;
    }
    while (end > begin && is_blank(end[-1]))
        end--;
    const char *name = skip_blanks(begin, end);
    const char *name_end = find_blank(name, end);
    if (name == name_end)
        return false;
    copy(out->interpreter, name, name_end);
    out->argument[0] = '\0';
    if (name_end < end && *name_end != '\0')
        copy(out->argument, skip_blanks(name_end, end), end);
    return true;
}

/* ---- env's part ----------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What removing or setting a variable means for the command. */
static enum hf_script_env changes(const char *variable)
{
    const size_t length = strcspn(variable, "=");
    if (length == strlen("LD_PRELOAD") && starts(variable, "LD_PRELOAD"))
        return HF_SCRIPT_ENV_CLEARS;
    if (length == strlen("PATH") && starts(variable, "PATH"))
        return HF_SCRIPT_ENV_UNKNOWN; /* the command is found elsewhere */
    return HF_SCRIPT_ENV_RUNS;
}

static enum hf_script_env read_words(char *words, char *command)
{
    static const char blanks[] = " \t";
    bool options = true;
    char *rest = NULL;
    for (char *word = strtok_r(words, blanks, &rest); word != NULL;
         word = strtok_r(NULL, blanks, &rest)) {
        enum hf_script_env change = HF_SCRIPT_ENV_RUNS;
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && (strcmp(word, "-v") == 0 || strcmp(word, "--debug") == 0)) {
            continue;
        } else if (options && (strcmp(word, "-i") == 0 || strcmp(word, "-") == 0 ||
                               strcmp(word, "--ignore-environment") == 0)) {
            return HF_SCRIPT_ENV_CLEARS;
        } else if (options && strcmp(word, "-u") == 0) {
            word = strtok_r(NULL, blanks, &rest);
            change = word != NULL ? changes(word) : HF_SCRIPT_ENV_UNKNOWN;
        } else if (options && starts(word, "-u")) {
            change = changes(word + strlen("-u"));
        } else if (options && starts(word, "--unset=")) {
            change = changes(word + strlen("--unset="));
        } else if (options && word[0] == '-') {
            return HF_SCRIPT_ENV_UNKNOWN;
        } else if (strchr(word, '=') != NULL) {
            options = false;
            change = changes(word);
        } else {
            memcpy(command, word, strlen(word) + 1);
            return HF_SCRIPT_ENV_RUNS;
        }
        if (change != HF_SCRIPT_ENV_RUNS)
            return change;
    }
    return HF_SCRIPT_ENV_NOTHING;
}

enum hf_script_env hf_script_env(const char *argument, char command[static HF_SCRIPT_LINE])
{
    static const char *const splits[] = {"-S", "-vS", "--split-string="};
    char words[HF_SCRIPT_LINE];
    command[0] = '\0';
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        if (starts(argument, splits[i])) {
            const char *text = argument + strlen(splits[i]);
            if (text[strcspn(text, "\\\"'$#")] != '\0')
                return HF_SCRIPT_ENV_UNKNOWN;
            memcpy(words, text, strlen(text) + 1);
            return read_words(words, command);
        }
    /* One word, whatever is in it. */
    if (argument[0] != '-' && argument[0] != '\0' && strchr(argument, '=') == NULL) {
        memcpy(command, argument, strlen(argument) + 1);
        return HF_SCRIPT_ENV_RUNS;
    }
    if (strpbrk(argument, " \t") != NULL)
        return HF_SCRIPT_ENV_UNKNOWN;
    memcpy(words, argument, strlen(argument) + 1);
    return read_words(words, command);
}
