/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line of a subcommand. One table describes the options; parsing, --help and the
 * messages about wrong usage are derived from it.
 *
 * Owns: nothing between calls, except getopt_long(3)'s state during hf_command_read(). Strings of
 * the command line are stored, not copied. Called between main() and exit(3), in one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_ARGUMENTS_H
#define HOMEFREE_LOADER_COMMAND_ARGUMENTS_H

#include "loader/command/command.h"

#include <stdbool.h>
#include <stddef.h>

enum { HF_ARGUMENTS_MAX = 16 };

/* Receives each value of an option. Returns HF_EXIT_CLEAN to continue, or HF_EXIT_USAGE after an
 * error message. */
typedef int hf_argument_take(void *request, const char *value);

struct hf_argument {
    const char *name;       /* without the dashes */
    const char *value;      /* the name of its value in the help; NULL: it takes none */
    const char *help;       /* lines of up to 70 characters, separated by '\n'; NULL: it is for
                               homefree's own processes, and not listed */
    size_t offset;          /* offset in the request of its bool, or of the pointer to its value */
    hf_argument_take *take; /* used instead of `offset` unless NULL */
    char letter;            /* the short form; 0: none */
    bool optional;          /* its value may be left out and is then NULL; needs `take` */
    bool several;           /* HF_OPERANDS_LISTED: operands after its value are further values */
};

/* Rows for what most options are, in a file whose request is `struct request`: an option that sets
 * a bool of the request, and one whose value is stored there. */
#define HF_FLAG_ARGUMENT(option, member, text)                                       \
    {                                                                                \
        .name = (option), .help = (text), .offset = offsetof(struct request, member) \
    }
#define HF_VALUE_ARGUMENT(option, member, what, text)      \
    {                                                      \
        .name = (option), .value = (what), .help = (text), \
        .offset = offsetof(struct request, member)         \
    }

/* The options that several subcommands have, with their members of the request. */
#define HF_JSON_ARGUMENT(text) HF_FLAG_ARGUMENT("json", json, text)
#define HF_OUTPUT_ARGUMENT(text)                                          \
    {                                                                     \
        .name = "output", .letter = 'o', .value = "FILE", .help = (text), \
        .offset = offsetof(struct request, output)                        \
    }

enum hf_operands {
    HF_OPERANDS_ANYWHERE, /* also between options */
    HF_OPERANDS_LAST,   /* the first one ends the options, as for a command with its own options */
    HF_OPERANDS_LISTED, /* further values of the option before them */
};

/* A subcommand as its user sees it. The texts end with a newline. */
struct hf_command {
    const char *who;                     /* "homefree inspect" */
    const char *usage;                   /* forms of the command line, the first after "Usage: " */
    const char *about;                   /* what it does */
    const char *notes;                   /* exit statuses and examples */
    void (*table)(FILE *out);            /* prints a part of the help before the notes; or NULL */
    const struct hf_argument *arguments; /* ends with a row without a name; --help is added to it */
    enum hf_operands operands;
};

/* The operands on the command line. */
struct hf_operand_list {
    char **values; /* ends with NULL */
    size_t count;
    bool separated; /* they follow "--" */
};

/*
 * Parses a command line into `request`. Returns HF_EXIT_NONE if the command should continue;
 * otherwise the exit status, after printing the help or an error message. `operands` stays empty
 * with HF_OPERANDS_LISTED.
 */
int hf_command_read(const struct hf_command *command, void *request, int count, char **arguments,
                    struct hf_operand_list *operands);

/* Prints an error message about the command line that refers to --help. Returns HF_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int hf_command_wrong(const char *who, const char *format,
                                                           ...);

#endif
