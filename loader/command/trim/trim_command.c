/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree trim`: asks a running process to give back what its allocators do not use, and shows
 * what each of them gave. A thread of the process does it (satellites/background/); how the two
 * speak is in loader/record/live_trim.h.
 *
 * Constraint: the process is hostile. What it says is bounded, and printed so that it cannot
 * control a terminal; eight bytes are written to it, where it may write itself.
 *
 * Owns: the options, and the answer while it is shown. One thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/json.h"
#include "loader/command/live/live_process.h"
#include "loader/command/text.h"
#include "loader/record/live_trim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const char who[] = "homefree trim";

struct request {
    bool json;
    const char *pid;
};

static const struct hf_argument arguments_table[] = {
    HF_VALUE_ARGUMENT("pid", pid, "PID", "the process that is asked"),
    HF_JSON_ARGUMENT("print a JSON document instead of the table"),
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree trim [--json] --pid PID\n",
    .about =
        "Makes every allocator of a running process give unused memory back to the system, as\n"
        "homefree.trim() and hf_trim() do, and shows what each gave. The process needs\n"
        "libhomefree and its background thread: HOMEFREE_CONF=background:on starts it, and so\n"
        "does homefree.install(background=True). You need the permission to debug the process.\n",
    .notes =
        "Exit status: 0 done, 2 wrong usage, 3 the process could not be asked, or did not answer.\n"
        "\n"
        "Example:\n"
        "  homefree trim --pid 4711\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

/* ---- asking ---------------------------------------------------------------------------------- */

enum { PATIENCE = 15, LOOKS = 50 }; /* seconds; looks a second */

struct asking {
    struct hf_live_process process;
    uint64_t at; /* the struct hf_live_trim's address */
    struct hf_live_trim answer;
};

static bool read_answer(struct asking *asking)
{
    if (!hf_live_read(&asking->process, asking->at, &asking->answer, sizeof asking->answer))
        return false;
    struct hf_live_trim *answer = &asking->answer;
    if (answer->count > HF_LIVE_TRIM_ROWS)
        answer->count = 0;
    for (size_t i = 0; i < answer->count; i++) {
        struct hf_live_trim_row *row = &answer->rows[i];
        row->allocator[sizeof row->allocator - 1] = '\0';
        row->how[sizeof row->how - 1] = '\0';
        row->object[sizeof row->object - 1] = '\0';
    }
    return true;
}

static int fail(const struct asking *asking, const char *why)
{
    hf_command_complain(who, "cannot ask process %d: %s", (int)asking->process.pid, why);
    return HF_EXIT_FAILED;
}

static int vanished(const struct asking *asking)
{
    return fail(asking, hf_live_runs(&asking->process)
                            ? "it runs another program by now, or its memory cannot be read"
                            : "it ended while it was asked");
}

static uint64_t new_number(const struct hf_live_trim *answer)
{
    uint64_t number = 0;
    while (number == 0 || number == answer->asked || number == answer->answered)
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            number = (uint64_t)time(NULL) + answer->asked;
    return number;
}

/* Waits for the answer to a request of this number. Another command's may come in between. */
static int await(struct asking *asking, uint64_t number)
{
    const struct timespec pause = {.tv_nsec = 1000000000 / LOOKS};
    for (int i = 0; i < PATIENCE * LOOKS; i++) {
        (void)nanosleep(&pause, NULL);
        if (!read_answer(asking))
            return vanished(asking);
        const struct hf_live_trim *answer = &asking->answer;
        if (answer->answered == number)
            return HF_EXIT_NONE;
        if (answer->listens != 1)
            return vanished(asking);
        if (answer->asked != number && answer->asked == answer->answered &&
            !hf_live_write(&asking->process, asking->at, &number, sizeof number))
            return vanished(asking);
    }
    return fail(asking,
                "it does not answer; it may be stopped, or another allocator may take long");
}

static int ask(struct asking *asking)
{
    const char *why;
    if (!hf_live_allow_writes(&asking->process))
        return fail(asking, asking->process.unreadable != NULL ? asking->process.unreadable
                                                               : strerror(errno));
    asking->at = hf_doctor_live_trim(&asking->process, &why);
    if (asking->at == 0)
        return fail(asking, why);
    if (!read_answer(asking))
        return vanished(asking);
    if (asking->answer.listens != 1)
        return fail(asking, "it has no thread that answers; start it with "
                            "HOMEFREE_CONF=background:on, or let it call "
                            "homefree.install(background=True) or hf_background_start()");
    const uint64_t number = new_number(&asking->answer);
    if (!hf_live_write(&asking->process, asking->at, &number, sizeof number))
        return vanished(asking);
    return await(asking, number);
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void write_json(FILE *out, const struct asking *asking)
{
    struct hf_json json;
    hf_json_begin_plain(&json, out, false);
    hf_json_unsigned(&json, "homefree_trim", 1);
    hf_json_unsigned(&json, "pid", (uint64_t)asking->process.pid);
    hf_json_array(&json, "rows");
    for (size_t i = 0; i < asking->answer.count; i++) {
        const struct hf_live_trim_row *row = &asking->answer.rows[i];
        hf_json_object(&json, NULL);
        hf_json_string(&json, "allocator", row->allocator);
        hf_json_string(&json, "object", or_null(row->object));
        hf_json_string(&json, "how", or_null(row->how));
        hf_json_unsigned(&json, "before", row->before);
        hf_json_unsigned(&json, "after", row->after);
        hf_json_close(&json);
    }
    hf_json_finish(&json);
}

static double mebibytes(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void write_table(FILE *out, const struct asking *asking)
{
    const struct hf_live_trim *answer = &asking->answer;
    fprintf(out, "%12s %12s  %-12s %s\n", "MiB before", "MiB after", "allocator", "how");
    for (size_t i = 0; i < answer->count; i++) {
        const struct hf_live_trim_row *row = &answer->rows[i];
        fprintf(out, "%12.1f %12.1f  ", mebibytes(row->before), mebibytes(row->after));
        hf_text_print(out, row->allocator);
        fprintf(out, "%*s ",
                row->allocator[0] != '\0' && strlen(row->allocator) < 12
                    ? (int)(12 - strlen(row->allocator))
                    : 0,
                "");
        hf_text_print(out, row->how[0] != '\0' ? row->how : "none of its functions is known");
        if (row->object[0] != '\0') {
            fputs(" of ", out);
            hf_text_print(out, row->object);
        }
        fputc('\n', out);
    }
    if (answer->left_out != 0)
        fprintf(out, "(%lu more)\n", (unsigned long)answer->left_out);
}

struct showing {
    const struct asking *asking;
    bool json;
};

static bool compose(FILE *out, void *context)
{
    const struct showing *showing = context;
    if (showing->json)
        write_json(out, showing->asking);
    else
        write_table(out, showing->asking);
    return true;
}

static int run(const struct request *request, struct asking *asking)
{
    int status = hf_live_open(who, request->pid, &asking->process);
    if (status != HF_EXIT_NONE)
        return status;
    status = ask(asking);
    if (status == HF_EXIT_NONE) {
        struct showing showing = {asking, request->json};
        status = hf_command_compose(who, "-", compose, &showing);
        if (status == HF_EXIT_CLEAN && asking->answer.error != 0)
            status = fail(asking, "its heap was busy with a fork and gave nothing back; ask again");
    }
    hf_live_close(&asking->process);
    return status;
}

int hf_command_trim(int count, char **arguments)
{
    struct request request = {.json = false};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result != HF_EXIT_NONE)
        return result;
    if (request.pid == NULL || operands.count > 0)
        return hf_command_wrong(who, operands.count > 0 ? "it takes no operands"
                                                        : "--pid PID is missing");
    struct asking *asking = calloc(1, sizeof *asking);
    if (asking == NULL)
        return hf_command_out_of_memory(who);
    result = run(&request, asking);
    free(asking);
    return result;
}
