/*
 * The frame of a subcommand: one table describes its options; reading the command line, --help and
 * complaints about wrong usage come from that table.
 *
 * Owns: nothing between calls, but getopt_long(3)'s state during hf_command_read(). Strings of the
 * command line are stored, not copied.
 */
#ifndef HF_LOADER_COMMAND_ARGUMENTS_H
#define HF_LOADER_COMMAND_ARGUMENTS_H

#include "loader/command/command.h"

#include <stdbool.h>
#include <stddef.h>

enum { HF_ARGUMENTS_MAX = 16 };

/* Receives each value of an option. Result: HF_EXIT_CLEAN to go on, or HF_EXIT_USAGE after a
 * complaint. */
typedef int hf_argument_take(void *request, const char *value);

struct hf_argument {
    const char *name;       /* without the dashes */
    char letter;            /* of the short form; 0: there is none */
    const char *value;      /* the name of its value in the help; NULL: it takes no value */
    const char *help;       /* lines of up to 70 characters, separated by '\n' */
    size_t offset;          /* where the request has its bool, or the pointer to its value */
    hf_argument_take *take; /* takes the place of `offset` when it is not NULL */
    bool several;           /* HF_OPERANDS_LISTED: operands after its value are values too */
};

enum hf_operands {
    HF_OPERANDS_ANYWHERE, /* between the options too */
    HF_OPERANDS_LAST,     /* the first one ends the options: a command that has its own */
    HF_OPERANDS_LISTED,   /* more values for the option before them */
};

/* A subcommand as its user sees it. The texts end with a newline. */
struct hf_command {
    const char *who;   /* "homefree inspect" */
    const char *usage; /* the forms of the command line, the first after "Usage: " */
    const char *about; /* what it does */
    const char *notes; /* exit statuses and examples */
    const struct hf_argument *arguments; /* ends with a row without a name; --help is added */
    enum hf_operands operands;
};

/* The operands on the command line. */
struct hf_operand_list {
    char **values; /* ends with NULL */
    size_t count;
    bool separated; /* "--" stands in front of them */
};

/*
 * Reads a command line into `request`. Result: HF_EXIT_NONE when the command shall go on; otherwise
 * what to exit with, after printing the help or a complaint. `operands` stays empty with
 * HF_OPERANDS_LISTED.
 */
int hf_command_read(const struct hf_command *command, void *request, int count, char **arguments,
                    struct hf_operand_list *operands);

/* Complains about the command line, and refers to --help. Result: HF_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int hf_command_wrong(const char *who, const char *format,
                                                           ...);

#endif
