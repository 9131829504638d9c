/*
 * A program that looks at the dispositions of signals before it installs its own, as Rust's runtime
 * does, and that then aborts on an alternate stack that has no room to spare.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two signal frames, and what a handler without optimisation needs. */
enum { STACK = 10240, PAGE = 4096 };

static void on_fault(int number)
{
    (void)number;
    abort();
}

int main(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE,
                                  SIGABRT, SIGTRAP, SIGSYS, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) != 0)
            return 1;
        printf("%d: %d, flags %x\n", numbers[i], action.sa_handler == SIG_DFL,
               (unsigned)action.sa_flags);
    }
    printf("%d\n", signal(SIGFPE, SIG_IGN) == SIG_DFL);
    printf("%d\n", signal(SIGFPE, SIG_DFL) == SIG_IGN);
    printf("%d\n", signal(SIGFPE, SIG_DFL) == SIG_DFL);
    fflush(stdout);
    /* Below the alternate stack lies a page that must not be touched. */
    char *memory =
        mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0)
        return 1;
    const stack_t stack = {.ss_sp = memory + PAGE, .ss_size = STACK};
    const struct sigaction ours = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGSEGV, &ours, NULL) != 0)
        return 1;
    *(volatile char *)memory = 1;
    return 0;
}
