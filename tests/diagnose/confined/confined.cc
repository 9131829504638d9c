/*
 * Drops its rights once it runs, as servers do: from then on a system call ends the process that a
 * plain program does not need for what its first argument names.
 *
 * usage: confined CASE prctl|seccomp [LIBRARY]
 *   LIBRARY  is loaded before
 * usage: confined refuse-madvise COMMAND [ARGUMENT]...
 *   runs a command in which madvise(2) fails
 */
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static const char *how;

static void enter(std::vector<sock_filter> code)
{
    const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        (std::strcmp(how, "prctl") == 0
             ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
             : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) != 0)
        _exit(77);
}

static void answer(std::vector<sock_filter> &code, unsigned call, unsigned action)
{
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, action));
}

/* What libc itself needs for the cases below, as far as they are correct. */
static void confine()
{
    static const unsigned needed[] = {
        SYS_brk,          SYS_clone,           SYS_close,
        SYS_exit,         SYS_exit_group,      SYS_fstat,
        SYS_futex,        SYS_getpid, /* abort(3) */
        SYS_gettid,       SYS_lseek,           SYS_madvise,
        SYS_mmap,         SYS_mprotect,        SYS_mremap,
        SYS_munmap,       SYS_nanosleep,       SYS_newfstatat,
        SYS_read,         SYS_rt_sigaction,    SYS_rt_sigprocmask,
        SYS_rt_sigreturn, SYS_set_robust_list, SYS_tgkill,
        SYS_wait4,        SYS_write,
#ifdef SYS_clone3
        SYS_clone3,
#endif
#ifdef SYS_rseq
        SYS_rseq,
#endif
    };
    std::vector<sock_filter> code = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    code.reserve(2 * sizeof needed / sizeof *needed + 2);
    for (const unsigned call : needed)
        answer(code, call, SECCOMP_RET_ALLOW);
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    enter(code);
}

template <class Type> static Type hide(Type value)
{
    __asm__ volatile("" : "+r"(value));
    return value;
}

static void churn(size_t largest)
{
    enum { BLOCKS = 1000 };
    static thread_local void *blocks[BLOCKS];
    for (size_t size = 1; size < largest; size += size / 3 + 1) {
        std::free(hide(std::realloc(hide(std::malloc(size)), size * 2)));
        std::free(hide(std::calloc(1, size)));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = hide(std::malloc(i * 97 % (largest / 8)));
    for (size_t i = 0; i < BLOCKS; i++)
        std::free(hide(blocks[i]));
    ::operator delete(hide(::operator new(100)));
}

/* The fault, which nothing notices without homefree. */
static void fault()
{
    std::free(hide(::operator new(100)));
}

static void allocate()
{
    churn(size_t{4} << 20);
    fault();
}

static void *churn_in_thread(void *)
{
    churn(8192); /* libc reads files of /proc when it gives more back */
    return nullptr;
}

static void threads()
{
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, nullptr, churn_in_thread, nullptr) != 0 ||
            pthread_join(thread, nullptr) != 0)
            _exit(3);
    fault();
}

static void forks()
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        allocate();
        std::exit(7);
    }
    if (waitpid(child, &status, 0) != child || status != 7 << 8)
        _exit(4);
    fault();
}

static void leaves()
{
    fault();
    _exit(0);
}

static void too_large()
{
    if (hide(std::malloc(size_t{1} << 43)) != nullptr)
        _exit(5);
    fault();
}

static void crashes()
{
    fault();
    *hide(reinterpret_cast<volatile int *>(16)) = 1;
}

static void aborts()
{
    fault();
    std::abort();
}

static const struct {
    const char *name;
    void (*run)();
} cases[] = {
    {"allocate", allocate},   {"threads", threads}, {"forks", forks},   {"leaves", leaves},
    {"too-large", too_large}, {"crashes", crashes}, {"aborts", aborts},
};

int main(int count, char **arguments)
{
    const rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    if (count > 2 && std::strcmp(arguments[1], "refuse-madvise") == 0) {
        std::vector<sock_filter> code = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
        answer(code, SYS_madvise, SECCOMP_RET_ERRNO | EPERM);
        code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        how = "prctl";
        enter(code);
        execvp(arguments[2], arguments + 2);
        return 2;
    }
    if (count == 4 && dlopen(arguments[3], RTLD_NOW) == nullptr)
        return 6;
    for (const auto &one : cases)
        if (count > 2 && std::strcmp(one.name, arguments[1]) == 0) {
            how = arguments[2];
            if (std::strcmp(how, "never") != 0)
                confine();
            one.run();
            return 0;
        }
    return 2;
}
