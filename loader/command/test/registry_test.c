/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns two generations of processes, one at a time each. The first loads the file, so that nothing
 * in it ends this one, and prints the page. Its children are the checks', which begin as copies of
 * it: the file is loaded, and no function of a member has been called. See registry_test.h. One
 * thread.
 */
#include "loader/command/test/registry_test.h"

#include "alloc/base/member_notes.h"
#include "loader/command/arguments.h"
#include "loader/command/json.h"
#include "loader/command/test/registry_checks.h"
#include "loader/command/test/registry_said.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char who[] = "homefree test";

enum { SAID_MAX = 4 * HF_REGISTRY_LINE };

/* ---- processes ---- */

static volatile sig_atomic_t is_late;
static volatile pid_t limited; /* the process that has a time limit */

static void stop(int signal)
{
    (void)signal;
    is_late = 1;
    (void)kill(limited, SIGKILL);
}

/* Gives a process so many seconds; 0 ends the limit. */
static void limit(pid_t process, unsigned seconds)
{
    const struct sigaction action = {.sa_handler = stop};
    const struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_sec = 1};
    const struct itimerval none = {.it_value.tv_sec = 0};
    (void)setitimer(ITIMER_REAL, &none, NULL);
    if (seconds == 0)
        return;
    limited = process;
    is_late = 0;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Whoever started this process, or the file that was loaded, may have left them otherwise: ignored,
 * SIGCHLD lets no child leave a status; blocked, an alarm ends no waiting. */
static void restore_signals(void)
{
    sigset_t none;
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGALRM, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* As fork(). *other is the child's end of a pipe there, and the parent's here. The child does not
 * outlive this process. */
static pid_t begin(int *other)
{
    int ends[2];
    const pid_t parent = getpid();
    restore_signals();
    (void)fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    const pid_t child = fork();
    *other = ends[child == 0];
    (void)close(ends[child != 0]);
    if (child < 0)
        (void)close(*other);
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        _exit(HF_EXIT_FAILED);
    return child;
}

/* Ends without the bytes if the process is late. */
static size_t read_most(int input, char *out, size_t most)
{
    size_t length = 0;
    while (length < most && !is_late) {
        const ssize_t size = read(input, out + length, most - length);
        if (size == 0 || (size < 0 && errno != EINTR))
            break;
        length += size > 0 ? (size_t)size : 0;
    }
    return length;
}

static int end_of(pid_t process)
{
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* How a process ended that should have done something else. */
static const char *describe(int status, unsigned seconds)
{
    static char how[128];
    if (is_late)
        snprintf(how, sizeof how, "it did not end within %u seconds", seconds);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "the process died: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "the process ended with status %d", WEXITSTATUS(status));
    return how;
}

/* ---- one check ---- */

struct outcome {
    char said[SAID_MAX];
    const char *rule, *how, *told; /* NULL: nothing */
};

/* Result: false if there could be no process. */
static bool examine(const struct hf_registry_check *check, const struct allocator_registry *member,
                    unsigned seconds, struct outcome *out)
{
    int other;
    *out = (struct outcome){.rule = NULL};
    const pid_t child = begin(&other);
    if (child < 0)
        return false;
    if (child == 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        hf_registry_say_to(other);
        check->run(member);
        exit(0); /* not _exit(): what runs at exit is a part of a check */
    }
    limit(child, seconds);
    out->said[read_most(other, out->said, SAID_MAX - 1)] = '\0';
    (void)close(other);
    const int status = end_of(child);
    limit(0, 0);
    char *rest = out->said;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && line[0] != '\0';)
        *(line[0] == HF_REGISTRY_RULE  ? &out->rule
          : line[0] == HF_REGISTRY_HOW ? &out->how
                                       : &out->told) = line + 1;
    if (out->rule == NULL && (status != 0 || is_late)) {
        out->rule = check->rule;
        out->how = describe(status, seconds);
    }
    return true;
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

/* The file's own output is not the page's. NULL after an error message. */
static const struct link_map *load(const char *path, const char *file)
{
    struct link_map *map;
    const int page = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)fflush(stdout);
    (void)dup2(page, STDOUT_FILENO);
    (void)close(page);
    if (handle != NULL && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        return map;
    hf_command_complain(who, "cannot load '%s': %s", file, dlerror());
    return NULL;
}

static int test_members(const struct hf_registry_request *request, const char *path,
                        const struct link_map *map)
{
    struct hf_object object;
    struct page page = {.is_json = request->json};
    (void)hf_dynlink_open(map, &object);
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
        hf_command_complain(who, "'%s' publishes no member of the registry", request->file);
        return HF_EXIT_FAILED;
    }
    return page.refused != 0 ? HF_EXIT_FINDINGS : HF_EXIT_CLEAN;
}

/* In the process that loads the file. It says when that is done, and at last the result: how it
 * ends tells nothing, because the file may end it. */
static _Noreturn void load_and_test(const struct hf_registry_request *request, const char *path,
                                    int other)
{
    const struct link_map *map = load(path, request->file);
    char result = HF_EXIT_FAILED;
    if (write(other, "", 1) == 1 && map != NULL)
        result = (char)test_members(request, path, map);
    if (fflush(stdout) != 0) {
        hf_command_complain(who, "cannot write: %s", strerror(errno));
        result = HF_EXIT_FAILED;
    }
    _exit(write(other, &result, 1) == 1 ? HF_EXIT_CLEAN : HF_EXIT_FAILED);
}

static bool is_check(const char *name)
{
    for (unsigned i = 0; i < hf_registry_checks_count; i++)
        if (strcmp(name, hf_registry_checks[i].name) == 0)
            return true;
    return false;
}

int hf_registry_test(const struct hf_registry_request *request)
{
    const char *const file = request->file;
    char path[PATH_MAX], said[2]; /* that the file is loaded, and the result */
    struct stat what;
    int other;
    if (request->only != NULL && !is_check(request->only))
        return hf_command_wrong(who, "no check of --registry is named '%s'", request->only);
    if (realpath(file, path) == NULL || stat(path, &what) != 0)
        return hf_command_wrong(who, "cannot read '%s': %s", file, strerror(errno));
    if (!S_ISREG(what.st_mode)) /* opening it may never end */
        return hf_command_wrong(who, "'%s' is no file", file);
    const pid_t child = begin(&other);
    if (child < 0) {
        hf_command_complain(who, "cannot start a process: %s", strerror(errno));
        return HF_EXIT_FAILED;
    }
    if (child == 0)
        load_and_test(request, path, other);
    limit(child, request->seconds);
    size_t length = read_most(other, said, 1);
    if (length == 1) {
        limit(0, 0);
        length += read_most(other, said + 1, 1);
    }
    (void)close(other);
    const int status = end_of(child);
    if (length == sizeof said)
        return said[1];
    hf_command_complain(who, "%s '%s': %s", length == 0 ? "cannot load" : "cannot test", file,
                        describe(status, request->seconds));
    return HF_EXIT_FAILED;
}
