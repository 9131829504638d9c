/*
 * A sandbox that the program enters when homefree is there already may forbid mprotect(2), with an
 * error or with death: what was routed goes on, in forked children too, and a later dlopen() loads.
 *
 * usage: test-sandbox LIBHOMEFREE USER
 */
#include "../modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *homefree_path, *user_path;

static void forbid_mprotect(unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void go_on(unsigned action)
{
    void *handle = load(homefree_path, RTLD_NOW);
    void *(*allocate)(size_t) = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    const struct user *user = load_user(user_path, RTLD_LAZY);
    void *block = allocate(100);
    user->release(allocate(100));
    forbid_mprotect(action);
    pid_t child = fork();
    if (child == 0) {
        user->release(block);
        free(malloc(100));
        _exit(7);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    user->release(block);
}

START_TEST(mprotect_fails)
{
    go_on(SECCOMP_RET_ERRNO | EPERM);
}
END_TEST

START_TEST(mprotect_kills)
{
    go_on(SECCOMP_RET_KILL_PROCESS);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path, &user_path);
    return RUN_TESTS("sandbox", mprotect_fails, mprotect_kills);
}
