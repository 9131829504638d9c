/*
 * A coroutine whose outermost return address leads into an ordinary function, so that a walk of its
 * stack goes on behind its end, where nothing is mapped. It frees static data, which a diagnosis
 * records with a stack, while its thread blocks SIGSEGV or has a handler that ends the process.
 *
 * usage: unended blocked|handled
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 64 << 10 };

static ucontext_t outside, inside;
static const void *in_large;
static char data[64];

static __attribute__((noinline)) void capture(const volatile char *unused)
{
    (void)unused;
    in_large = __builtin_return_address(0);
}

/* A frame that is larger than what is left of the coroutine's stack behind its outermost one. */
static __attribute__((noinline)) void large(void)
{
    volatile char frame[16384];
    frame[0] = 0;
    capture(frame);
    frame[1] = frame[0];
}

static void run(void)
{
    void *wrong = data;
    __asm__ volatile("" : "+r"(wrong));
    free(wrong);
    (void)swapcontext(&inside, &outside);
}

static void end(int number)
{
    (void)number;
    _exit(5);
}

int main(int count, char **arguments)
{
    char *memory =
        mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count != 2 || memory == MAP_FAILED || mprotect(memory + STACK, STACK, PROT_NONE) != 0)
        return 2;
    large();
    if (strcmp(arguments[1], "handled") == 0)
        (void)signal(SIGSEGV, end);
    if (getcontext(&inside) != 0)
        return 3;
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = STACK;
    if (strcmp(arguments[1], "blocked") == 0)
        sigaddset(&inside.uc_sigmask, SIGSEGV);
    makecontext(&inside, run, 0);
#if defined(__x86_64__)
    *(uintptr_t *)inside.uc_mcontext.gregs[REG_RSP] = (uintptr_t)in_large;
#elif defined(__aarch64__)
    inside.uc_mcontext.regs[30] = (uintptr_t)in_large;
#endif
    if (swapcontext(&outside, &inside) != 0)
        return 4;
    puts("survived");
    return 0;
}
