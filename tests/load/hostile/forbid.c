/*
 * Runs a command in which system calls fail, as a sandbox makes them.
 *
 * usage: forbid NAME... -- COMMAND [ARGUMENT]...
 *   NAME  memfd_create, membarrier, mremap, process_vm_readv, copy_file_range, ioctl, rename:
 * EPERM; exec-memory: mprotect(2) that makes memory executable, EACCES; file-size: RLIMIT_FSIZE of
 * 64 KiB
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RESULT(action) BPF_STMT(BPF_RET | BPF_K, (action))

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"memfd_create", SYS_memfd_create},
    {"membarrier", SYS_membarrier},
    {"mremap", SYS_mremap},
    {"process_vm_readv", SYS_process_vm_readv},
    {"copy_file_range", SYS_copy_file_range},
    {"ioctl", SYS_ioctl},
    {"renameat", SYS_renameat},
};

static int install(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int forbid(const char *name)
{
    if (strcmp(name, "file-size") == 0) {
        const struct rlimit limit = {65536, 65536};
        return setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (strcmp(name, "exec-memory") == 0) {
        struct sock_filter code[] = {
            LOAD(nr),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
            LOAD(args[2]),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
            RESULT(SECCOMP_RET_ERRNO | EACCES),
            RESULT(SECCOMP_RET_ALLOW),
        };
        return install(code, sizeof code / sizeof code[0]);
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(name, calls[i].name) == 0) {
            struct sock_filter code[] = {
                LOAD(nr),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
                RESULT(SECCOMP_RET_ERRNO | EPERM),
                RESULT(SECCOMP_RET_ALLOW),
            };
            return install(code, sizeof code / sizeof code[0]);
        }
    errno = EINVAL;
    return -1;
}

int main(int count, char **arguments)
{
    int at = 1;
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (; at < count && strcmp(arguments[at], "--") != 0; at++)
        if (forbid(arguments[at]) != 0) {
            perror(arguments[at]);
            return 77;
        }
    if (at + 1 >= count)
        return 2;
    execv(arguments[at + 1], arguments + at + 1);
    perror(arguments[at + 1]);
    return 2;
}
