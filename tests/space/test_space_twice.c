/*
 * A small block of a space that is freed twice is found at once, by a result, and if free() frees
 * it, by a message with the address that its user knows.
 */
#include "api.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int message[2];
static char expected[2][64];

/* The line was written; the process would end now. */
static void look(int signal)
{
    char line[2048] = "";
    (void)signal;
    const ssize_t length = read(message[0], line, sizeof line - 1);
    bool found = length > 0 && (strstr(line, "freed twice") || strstr(line, "double free"));
    for (int i = 0; i < 2; i++)
        found = found && strstr(line, expected[i]) != NULL;
    if (!found)
        (void)!write(message[1], line, strlen(line));
    _exit(found ? 0 : 1);
}

static void free_twice(enum hf_space_kind kind, const char *place)
{
    void *blocks[2] = {NULL, NULL};
    must(cudaFree(NULL) == 0);
    for (int i = 0; i < 2; i++)
        must(hf_space_alloc(&blocks[i], kind, 0, 1000, 0, NULL) == 0);
    (void)snprintf(expected[0], sizeof expected[0], "free(%p): ", blocks[0]);
    (void)snprintf(expected[1], sizeof expected[1], "block of %s", place);
    const int errors = dup(STDERR_FILENO);
    must(pipe(message) == 0 && dup2(message[1], STDERR_FILENO) >= 0);
    message[1] = errors;
    (void)signal(SIGABRT, look);
    int error = 0;
    for (int i = 0; i < 3; i++)
        error = hf_space_free(blocks[i % 2], kind == HF_SPACE_DEVICE ? NULL : HF_STREAM_DONE);
    if (error == -EINVAL)
        free(blocks[0]);
    (void)hf_space_trim(kind, 0, 0, NULL);
}

START_TEST(a_page_locked_block)
{
    assert_succeeds(OUTCOME_OF_SELF(NULL, "pinned"));
}
END_TEST

START_TEST(a_block_of_a_device)
{
    assert_succeeds(OUTCOME_OF_SELF(NULL, "device"));
}
END_TEST

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "pinned") == 0)
        free_twice(HF_SPACE_PINNED, "homefree's page-locked memory");
    else if (count == 2)
        free_twice(HF_SPACE_DEVICE, "homefree's memory of CUDA device 0");
    if (count != 1)
        return 2;
    return RUN_SUITE(a_page_locked_block, a_block_of_a_device);
}
