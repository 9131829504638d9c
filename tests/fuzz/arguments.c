/*
 * Command lines, read with a table that has an option of every form, and with each of the three
 * rules for operands. An input is the rule, and the arguments, each ending with a newline.
 */
#include "loader/command/arguments.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MOST = 64 };

struct request {
    bool flag, other;
    const char *value, *output;
    const char *taken[2 * ARGUMENTS_MOST];
    size_t count;
};

static int take_value(void *request, const char *value)
{
    struct request *to = request;
    ck_assert_uint_lt(to->count, sizeof to->taken / sizeof to->taken[0]);
    to->taken[to->count++] = value;
    return value != NULL && strcmp(value, "wrong") == 0 ? hf_command_wrong("fuzz", "%s", value)
                                                        : HF_EXIT_CLEAN;
}

static const struct hf_argument table[] = {
    HF_FLAG_ARGUMENT("flag", flag, "a flag"),
    {.name = "other",
     .letter = 'x',
     .help = "another\nin two lines",
     .offset = offsetof(struct request, other)},
    HF_VALUE_ARGUMENT("value", value, "VALUE", "a value"),
    HF_OUTPUT_ARGUMENT("a file"),
    {.name = "optional",
     .value = "MAYBE",
     .help = "it may be left out",
     .take = take_value,
     .optional = true},
    {.name = "several", .value = "NAME...", .help = "a list", .take = take_value, .several = true},
    {.name = NULL},
};

/* Whether a value is one of the arguments or a part of one. */
static bool is_of(const char *value, char *const *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (value >= arguments[i] && value <= arguments[i] + strlen(arguments[i]))
            return true;
    return value == NULL;
}

static void check(const struct request *request, const struct hf_operand_list *operands,
                  char *const *arguments, size_t count)
{
    ck_assert(is_of(request->value, arguments, count));
    ck_assert(is_of(request->output, arguments, count));
    for (size_t i = 0; i < request->count; i++)
        ck_assert(is_of(request->taken[i], arguments, count));
    ck_assert_uint_le(operands->count, count);
    for (size_t i = 0; i < operands->count; i++)
        ck_assert(operands->values[i] != NULL && is_of(operands->values[i], arguments, count));
    ck_assert_ptr_null(operands->values[operands->count]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct hf_command command = {
        .who = "fuzz",
        .usage = "fuzz\n",
        .about = "Reads a command line.\n",
        .notes = "None.\n",
        .arguments = table,
        .operands = (enum hf_operands)(data[0] % 3),
    };
    struct fuzz_part rest = {data + 1, size - 1};
    struct request request = {.flag = false};
    struct hf_operand_list operands;
    char *owned[ARGUMENTS_MOST + 1] = {strdup("fuzz")}, *arguments[ARGUMENTS_MOST + 1];
    size_t count = 1;
    while (rest.size > 0 && count < ARGUMENTS_MOST)
        owned[count++] = fuzz_text(fuzz_take(&rest, "\n"));
    memcpy(arguments, owned, sizeof arguments); /* getopt_long(3) changes the order */
    const int status = hf_command_read(&command, &request, (int)count, arguments, &operands);
    ck_assert(status == HF_EXIT_NONE || status == HF_EXIT_USAGE || status == HF_EXIT_CLEAN);
    if (status == HF_EXIT_NONE)
        check(&request, &operands, owned, count);
    for (size_t i = 0; i < count; i++)
        free(owned[i]);
    return 0;
}
