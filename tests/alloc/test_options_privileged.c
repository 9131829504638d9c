/* A privileged process ignores HOMEFREE_CONF: it belongs to whoever started it, not to whom it acts
 * for. A setuid copy of a helper is run as nobody; needs root, and a file system that honours the
 * bit.
 *
 *   test_options_privileged HELPER LIBRARY */
#include "death.h"
#include "suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NOBODY 65534

static char directory[] = "/tmp/homefree-privileged-XXXXXX";
static char helper[sizeof directory + 10], library[sizeof directory + 20];

static bool copy(const char *from, const char *to, mode_t mode)
{
    char buffer[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t got = -1;
    while (in >= 0 && out >= 0 && (got = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)got) != got) {
            got = -1;
            break;
        }
    bool done = got == 0 && fchmod(out, mode) == 0;
    close(in);
    close(out);
    return done;
}

static int become_nobody(void)
{
    return setgid(NOBODY) != 0 || setuid(NOBODY) != 0;
}

static void run_helper(struct outcome *outcome, const char *setting, int (*prepare)(void))
{
    const char *const arguments[] = {helper, library, NULL};
    const char *const environment[] = {setting, NULL};
    const struct program program = {
        .arguments = arguments, .environment = environment, .prepare = prepare};
    outcome_of_program(outcome, &program);
}

START_TEST(the_variable_is_ignored)
{
    struct outcome plain, privileged, wrong;
    run_helper(&plain, "HOMEFREE_CONF=region:64M", NULL);
    assert_exited(&plain, 0, 1, "secure 0 region 67108864");
    run_helper(&privileged, "HOMEFREE_CONF=region:64M", become_nobody);
    assert_exited(&privileged, 0, 1, "secure 1 region ");
    ck_assert_ptr_null(strstr(privileged.text, "67108864"));
    /* The variable is not even parsed. */
    run_helper(&wrong, "HOMEFREE_CONF=nonsense:1", become_nobody);
    assert_exited(&wrong, 0, 1, "secure 1 region ");
}
END_TEST

/* Returns NULL, or the reason why this machine cannot run the test. */
static const char *set_up(const char *helper_path, const char *library_path)
{
    if (geteuid() != 0)
        return "needs root";
    if (mkdtemp(directory) == NULL || chmod(directory, 0755) != 0)
        return "cannot make a directory";
    snprintf(helper, sizeof helper, "%s/helper", directory);
    snprintf(library, sizeof library, "%s/libhomefree.so", directory);
    if (!copy(helper_path, helper, 04755) || !copy(library_path, library, 0755))
        return "cannot copy the helper";
    struct statvfs system;
    if (statvfs(directory, &system) != 0 || (system.f_flag & ST_NOSUID) != 0)
        return "no setuid programs in /tmp";
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? NULL : "no new privileges here";
}

int main(int count, char **arguments)
{
    const char *helper_path, *library_path;
    TAKE_ARGUMENTS(&helper_path, &library_path);
    const char *reason = set_up(helper_path, library_path);
    int result = SKIPPED;
    if (reason == NULL)
        result = RUN_SUITE(the_variable_is_ignored);
    else
        printf("skipped: %s\n", reason);
    unlink(helper);
    unlink(library);
    rmdir(directory);
    return result;
}
