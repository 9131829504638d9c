/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/limit.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All plugins together may have 64 MiB; whoever wants more is told so, and gets it. */
static void told(void *context, const struct hf_limit_state *state, uint64_t asked)
{
    (void)context;
    fprintf(stderr, "%s: %" PRIu64 " bytes, and asks for %" PRIu64 "\n", state->name, state->used,
            asked);
}

static int show(void *context, const struct hf_limit_state *state)
{
    (void)context;
    printf("%s: at most %" PRIu64 " of %" PRIu64 " bytes\n", state->name, state->peak,
           state->limit);
    return 0;
}

static void plugins(void)
{
    struct hf_limit_options options = {
        .size = sizeof options, .mode = HF_LIMIT_WARN, .callback = told, .name = "plugins"};
    struct hf_limit *limit = NULL;
    int error = hf_limit_begin(&limit, NULL, 64 << 20, &options);
    assert(error == 0);
    error = hf_limit_add(limit, "/opt/program/plugins/"); /* what is loaded from there, later too */
    assert(error == 0);
    error = hf_limit_set(limit, 128 << 20);
    assert(error == 0);

    struct hf_limit_state state = {.size = sizeof state};
    error = hf_limit_read(limit, &state);
    assert(error == 0 && state.limit == 128 << 20 && strcmp(state.name, "plugins") == 0);
    error = hf_limit_each(show, NULL);
    assert(error == 0);
    error = hf_limit_end(limit);
    assert(error == 0);
}

int main(void)
{
    plugins();
    return 0;
}
