/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the processes of the checks, one at a time, which begin as copies of this one: the file is
 * loaded, and nothing in it has been called. See registry_test.h. One thread.
 */
#include "loader/command/test/registry_test.h"

#include "alloc/base/member_notes.h"
#include "loader/command/arguments.h"
#include "loader/command/json.h"
#include "loader/command/test/registry_checks.h"
#include "loader/command/test/registry_said.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char who[] = "homefree test";

enum { SAID_MAX = 4 * HF_REGISTRY_LINE };

/* ---- one check ---- */

struct outcome {
    char said[SAID_MAX];
    const char *rule, *how, *told; /* NULL: nothing */
};

static void read_all(int input, char *out)
{
    size_t length = 0;
    ssize_t size;
    while ((size = read(input, out + length, SAID_MAX - 1 - length)) > 0 ||
           (size < 0 && errno == EINTR))
        length += size > 0 ? (size_t)size : 0;
    out[length] = '\0';
}

/* Result: false if there could be no process. */
static bool examine(const struct hf_registry_check *check, const struct allocator_registry *member,
                    unsigned seconds, struct outcome *out)
{
    int ends[2], status = 0;
    *out = (struct outcome){.rule = NULL};
    if (pipe(ends) != 0)
        return false;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        hf_registry_say_to(ends[1]);
        alarm(seconds);
        check->run(member);
        exit(0); /* not _exit(): what runs at exit is a part of a check */
    }
    (void)close(ends[1]);
    if (child > 0)
        read_all(ends[0], out->said);
    (void)close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    char *rest = out->said;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && line[0] != '\0';)
        *(line[0] == HF_REGISTRY_RULE  ? &out->rule
          : line[0] == HF_REGISTRY_HOW ? &out->how
                                       : &out->told) = line + 1;
    if (out->rule != NULL || status == 0)
        return child > 0;
    out->rule = check->rule;
    static char how[128];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(how, sizeof how, "the check did not end within %u seconds", seconds);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "the process died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "the process ended with status %d", WEXITSTATUS(status));
    out->how = how;
    return child > 0;
}

/* ---- the page ---- */

struct page {
    struct hf_json json;
    bool is_json;
    unsigned refused;
};

static void show(struct page *page, const char *check, const char *result,
                 const struct outcome *outcome)
{
    if (page->is_json) {
        hf_json_object(&page->json, NULL);
        hf_json_string(&page->json, "check", check);
        hf_json_string(&page->json, "result", result);
        hf_json_string(&page->json, "rule", outcome->rule);
        hf_json_string(&page->json, "how", outcome->how);
        hf_json_string(&page->json, "measured", outcome->told);
        hf_json_close(&page->json);
        return;
    }
    printf("  %-8s %s\n", result, check);
    if (outcome->rule != NULL)
        printf("           %s: %s\n", outcome->rule, outcome->how);
    if (outcome->told != NULL)
        printf("           %s\n", outcome->told);
}

static void begin_member(struct page *page, const char *name, const char *release)
{
    if (!page->is_json) {
        printf("%s%s%s\n", name, release != NULL ? " " : "", release != NULL ? release : "");
        return;
    }
    hf_json_object(&page->json, NULL);
    hf_json_string(&page->json, "name", name);
    hf_json_string(&page->json, "release", release);
    hf_json_array(&page->json, "checks");
}

static void end_member(struct page *page)
{
    if (page->is_json) {
        hf_json_close(&page->json);
        hf_json_close(&page->json);
    }
}

static bool test_member(struct page *page, const struct hf_registry_request *request,
                        const struct allocator_registry *member)
{
    begin_member(page, member->name, member->release);
    for (unsigned i = 0; i < hf_registry_checks_count; i++) {
        const struct hf_registry_check *check = &hf_registry_checks[i];
        struct outcome outcome = {.rule = NULL};
        if (request->only != NULL && strcmp(request->only, check->name) != 0)
            continue;
        if (!hf_registry_can_check(check, member)) {
            show(page, check->name, "skipped", &outcome);
            continue;
        }
        if (!examine(check, member, request->seconds, &outcome))
            return false;
        page->refused += outcome.rule != NULL;
        show(page, check->name, outcome.rule != NULL ? "refused" : "ok", &outcome);
    }
    end_member(page);
    return true;
}

int hf_registry_test(const struct hf_registry_request *request)
{
    const char *const file = request->file;
    char path[PATH_MAX];
    struct hf_object object;
    struct link_map *map = NULL;
    struct page page = {.is_json = request->json};
    if (realpath(file, path) == NULL)
        return hf_command_wrong(who, "cannot read '%s': %s", file, strerror(errno));
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 ||
        !hf_dynlink_open(map, &object)) {
        hf_command_complain(who, "cannot load '%s': %s", file, dlerror());
        return HF_EXIT_FAILED;
    }
    if (request->json) {
        hf_json_begin_plain(&page.json, stdout, false);
        hf_json_unsigned(&page.json, "homefree_registry", 1);
        hf_json_string(&page.json, "file", path);
        hf_json_array(&page.json, "members");
    }
    const struct allocator_registry *member;
    const char *note = NULL, *why;
    unsigned members = 0;
    for (; hf_member_next(&object, &note, &member, &why); members++) {
        const struct outcome outcome = {.rule = why, .how = "there is no member"};
        if (member != NULL) {
            if (!test_member(&page, request, member)) {
                hf_command_complain(who, "cannot start a process: %s", strerror(errno));
                return HF_EXIT_FAILED;
            }
            continue;
        }
        page.refused++;
        begin_member(&page, "a note", NULL);
        show(&page, "structure", "refused", &outcome);
        end_member(&page);
    }
    if (request->json)
        hf_json_finish(&page.json);
    if (members == 0) {
        hf_command_complain(who, "'%s' publishes no member of the registry", file);
        return HF_EXIT_FAILED;
    }
    return page.refused != 0 ? HF_EXIT_FINDINGS : HF_EXIT_CLEAN;
}
