/*
 * Commits the wrong access that its argument names, says what it read, and ends. Each side is a
 * function of its own, whose name the report must show. Run with sample:1.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE   __attribute__((noinline))
#define KEEP_FRAME __asm__ volatile("")

static NOINLINE char *take(size_t size)
{
    char *block = malloc(size);
    memset(block, 'x', size);
    return block;
}

static NOINLINE void give(void *block)
{
    free(block);
    KEEP_FRAME;
}

static NOINLINE char look(const volatile char *at)
{
    const char found = *at;
    KEEP_FRAME;
    return found;
}

static NOINLINE void poke(volatile char *at)
{
    *at = 'y';
    KEEP_FRAME;
}

static NOINLINE char *hide(char *at)
{
    __asm__ volatile("" : "+r"(at));
    return at;
}

static void read_freed(void)
{
    char *block = take(100);
    give(block);
    printf("read %c\n", look(hide(block) + 50));
}

static void write_freed(void)
{
    char *block = take(5000);
    give(block);
    poke(hide(block));
    poke(hide(block) + 4999);
    printf("read %c%c\n", look(hide(block) + 1), look(hide(block) + 4999));
}

static void read_resized(void)
{
    char *block = take(40), *resized = realloc(block, 400);
    printf("read %c%c\n", look(hide(block)), look(resized));
    give(resized);
}

static void write_behind(void)
{
    char *block = take(64);
    poke(hide(block) + 64);
    printf("read %c\n", look(block));
    give(block);
}

static void read_behind(void)
{
    char *block = take(48);
    printf("read %d\n", look(hide(block) + 48));
    give(block);
}

static void read_before(void)
{
    char *block = take(64);
    printf("read %d\n", look(hide(block) - sysconf(_SC_PAGESIZE)));
    give(block);
}

/* Alignment leaves three bytes between the block and the guard. */
static void write_hidden(void)
{
    char *block = take(61);
    poke(hide(block) + 61);
    printf("read %c\n", look(block));
    give(block);
}

/* Goes beyond the guard, into what follows. */
static void write_far(void)
{
    char *block = take(4096);
    memset(hide(block), 'z', 3 * 4096 + 1000);
    printf("read %c\n", look(hide(block) + 4097));
    give(block);
}

static void double_free(void)
{
    char *block = take(80);
    give(block);
    give(hide(block));
    printf("read \n");
}

static void interior_free(void)
{
    char *block = take(80);
    give(hide(block) + 16);
    give(block);
    printf("read \n");
}

static void *look_at(void *block)
{
    look(block);
    return NULL;
}

static void read_freed_by_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    char *block = take(100);
    give(block);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, look_at, hide(block));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("read \n");
}

static void read_freed_by_child(void)
{
    char *block = take(100);
    const pid_t child = fork();
    if (child == 0) {
        give(block);
        _exit(look(hide(block)) == 'x' ? 7 : 8);
    }
    int status;
    waitpid(child, &status, 0);
    printf("read %c %d\n", look(block), WEXITSTATUS(status));
    give(block);
}

static void read_freed_by_vfork(void)
{
    char *block = take(100);
    give(block);
    const pid_t child = vfork();
    if (child == 0)
        _exit(look(hide(block)) == 'x' ? 7 : 8);
    int status;
    waitpid(child, &status, 0);
    printf("read %d\n", WEXITSTATUS(status));
}

/* The program's handler on its alternate stack, which has little room, gets its own faults. */
static volatile sig_atomic_t faults;
static char *guarded;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number != SIGSEGV || info->si_addr != guarded)
        _exit(9);
    faults = faults + 1;
    if (mprotect(guarded, 4096, PROT_READ | PROT_WRITE) != 0)
        _exit(8);
}

static void with_handler(void)
{
    static char stack[10240] __attribute__((aligned(64)));
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND},
                     old;
    guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0 ||
        sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_sigaction != on_fault ||
        old.sa_flags != action.sa_flags || sigismember(&old.sa_mask, SIGUSR1) != 1 ||
        sigismember(&old.sa_mask, SIGUSR2) != 0)
        exit(2);
    const pid_t child = vfork();
    if (child == 0) { /* resets the handlers, as what starts programs does */
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    char *block = take(100);
    give(block);
    printf("read %c\n", look(hide(block)));
    poke(guarded);
    if (faults != 1 || sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_handler != SIG_DFL)
        exit(3);
    block = take(200);
    give(block);
    (void)look(hide(block));
}

/* A write barrier, as collectors have: the program protects its own blocks, again and again. */
static volatile long barrier_faults;

static void on_barrier(int number, siginfo_t *info, void *context)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)number;
    (void)context;
    barrier_faults = barrier_faults + 1;
    if (mprotect((void *)((uintptr_t)info->si_addr & -page), page, PROT_READ | PROT_WRITE) != 0)
        _exit(8);
}

static void write_barrier(void)
{
    enum { BLOCKS = 400, TURNS = 30, SIZE = 4096 };
    static char *blocks[BLOCKS];
    const struct sigaction action = {.sa_sigaction = on_barrier, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, NULL) != 0)
        exit(2);
    for (int i = 0; i < BLOCKS; i++) /* each with pages of its own, also if it is not sampled */
        blocks[i] = memset(aligned_alloc(SIZE, SIZE), 'x', SIZE);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < BLOCKS; i++)
            if (mprotect(blocks[i], SIZE, PROT_READ) != 0)
                exit(3);
        for (int i = 0; i < BLOCKS; i++)
            poke(blocks[i]);
    }
    printf("read %c %ld\n", look(blocks[0]), barrier_faults);
    for (int i = 0; i < BLOCKS; i++)
        give(blocks[i]);
}

static void without_handler(void)
{
    if (signal(SIGSEGV, SIG_IGN) != SIG_DFL || signal(SIGSEGV, SIG_DFL) != SIG_IGN)
        exit(2);
    read_freed();
}

/* A handler that only the kernel knows, as Go's runtime has: nothing is sampled behind it. */
static void raw_handler(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {_exit, 0, NULL, 0};
    if (syscall(SYS_rt_sigaction, SIGSEGV, &action, NULL, sizeof action.mask) != 0)
        exit(2);
    read_freed();
}

/* A sandbox that ends the process at calls which it does not expect. */
static void sandbox(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    char *block = take(100);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        exit(2);
    give(block);
    for (int i = 0; i < 100; i++)
        give(take(100));
    printf("read %c\n", look(hide(block)));
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } accesses[] = {
        {"read-freed", read_freed},
        {"write-freed", write_freed},
        {"read-resized", read_resized},
        {"write-behind", write_behind},
        {"read-behind", read_behind},
        {"read-before", read_before},
        {"write-hidden", write_hidden},
        {"write-far", write_far},
        {"double-free", double_free},
        {"interior-free", interior_free},
        {"read-freed-threads", read_freed_by_threads},
        {"read-freed-child", read_freed_by_child},
        {"read-freed-vfork", read_freed_by_vfork},
        {"with-handler", with_handler},
        {"write-barrier", write_barrier},
        {"without-handler", without_handler},
        {"raw-handler", raw_handler},
        {"sandbox", sandbox},
    };
    for (size_t i = 0; count == 2 && i < sizeof accesses / sizeof accesses[0]; i++)
        if (strcmp(accesses[i].name, arguments[1]) == 0) {
            accesses[i].run();
            return 0;
        }
    return 2;
}
