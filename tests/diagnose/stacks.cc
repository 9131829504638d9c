// Deletes blocks that another object allocated with malloc, in the manner that its argument names,
// says "survived", and ends. Each function is a frame that the report must show.
#include "../support/cases.h"

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" void *library_outer(std::size_t size);
extern "C" void *library_other(std::size_t size);

#define FRAME        __attribute__((noinline)) void
#define NO_TAIL_CALL __asm__ volatile("")

extern "C" void *freed_block;
void *freed_block;

namespace
{

FRAME give_inner(void *ptr)
{
    ::operator delete(ptr);
    NO_TAIL_CALL;
}

FRAME give_outer(void *ptr)
{
    give_inner(ptr);
    NO_TAIL_CALL;
}

FRAME cross()
{
    give_outer(library_outer(24));
    NO_TAIL_CALL;
}

FRAME cross_differently()
{
    give_outer(library_other(24));
    NO_TAIL_CALL;
}

FRAME cross_twice()
{
    for (int i = 0; i < 2; i++)
        cross();
}

// The second block comes by another way than the third and the first.
FRAME cross_by_ways()
{
    cross();
    cross_differently();
    cross();
}

// More often than each allocation has its stack taken.
FRAME cross_often()
{
    for (int i = 0; i < 20000; i++)
        cross();
}

FRAME cross_in_threads()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([i] {
            for (int k = 0; k < 500; k++)
                (i + k) % 2 == 0 ? cross() : cross_differently();
        });
    for (std::thread &thread : threads)
        thread.join();
}

FRAME recurse(int depth)
{
    if (depth == 0)
        cross_twice();
    else
        recurse(depth - 1);
    NO_TAIL_CALL;
}

FRAME on_signal(int)
{
    cross_twice();
}

FRAME in_signal()
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    NO_TAIL_CALL;
}

FRAME in_signal_elsewhere()
{
    static char memory[1 << 16]; // below the thread's stack
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    NO_TAIL_CALL;
}

// A stack that is aligned anew and grows: unwind information tells by expressions where it began.
FRAME aligned_anew(std::size_t size)
{
    alignas(64) volatile char there[64] = {};
    void *more = __builtin_alloca(size);
    cross_twice();
    __asm__ volatile("" : : "r"(there), "r"(more));
}

FRAME call_aligned()
{
    aligned_anew(100);
    NO_TAIL_CALL;
}

volatile sig_atomic_t ticks;

void on_tick(int)
{
    ticks = ticks + 1;
}

// Signals arrive while stacks are taken.
FRAME interrupted()
{
    struct itimerval often = {};
    often.it_interval.tv_usec = often.it_value.tv_usec = 200;
    signal(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; i < 3000 || (ticks < 20 && i < 10000000); i++)
        cross();
}

FRAME fork_then_cross()
{
    cross();
    if (fork() == 0) {
        cross();
        fflush(stdout);
        _exit(0);
    }
    int status;
    while (wait(&status) > 0)
        ;
}

// A call that the compiler sees keeps the stack aligned, and x86-64's red zone unused.
FRAME fill(volatile std::uintptr_t *values, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++)
        values[i] = 0x7123456789;
}

#if defined(__x86_64__)
#    define CALLS \
        "+a"(function) : : "memory", "cc", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"
#    define WITH_FRAME(wrong) \
        "push %%rbp\n push %%rbp\n mov " wrong ", %%rbp\n call *%0\n pop %%rbp\n pop %%rbp"
#    define VALUES(count)    std::uintptr_t values[count]
#    define WITH_SMALL_FRAME WITH_FRAME("$16")
#    define WITH_FREED_FRAME WITH_FRAME("freed_block(%%rip)")
#    define WITH_MOVED_STACK "sub $64, %%rsp\n call *%0\n add $64, %%rsp"
#else
// On aarch64, unwind information relies on the frame pointer only where the compiler does not know
// the frame's size.
volatile std::size_t one = 1;
#    define CALLS                                                                                \
        "+r"(function)                                                                           \
            : "r"(freed_block)                                                                   \
            : "memory", "cc", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", \
              "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x20", "x30"
#    define WITH_FRAME(wrong) "mov x20, x29\n mov x29, " wrong "\n blr %0\n mov x29, x20"
#    define VALUES(count) \
        auto *values = static_cast<std::uintptr_t *>(__builtin_alloca(one * count * sizeof(void *)))
#    define WITH_SMALL_FRAME WITH_FRAME("#16")
#    define WITH_FREED_FRAME WITH_FRAME("%1")
#    define WITH_MOVED_STACK "sub sp, sp, #64\n blr %0\n add sp, sp, #64"
#endif

// A register that the unwind information relies on is wrong.
FRAME without_frame()
{
    void (*function)() = cross_twice;
    VALUES(16);
    fill(values, 16);
    __asm__ volatile(WITH_SMALL_FRAME : CALLS);
    fill(values, 16);
}

// The wrong register points to a freed block, which nobody may read if it was sampled.
FRAME freed_frame()
{
    void (*function)() = cross_twice;
    VALUES(16);
    fill(values, 16);
    freed_block = std::malloc(64);
    std::free(freed_block);
    __asm__ volatile(WITH_FREED_FRAME : CALLS);
    fill(values, 16);
}

// The return address is found where another value lies.
FRAME moved_stack()
{
    void (*function)() = cross_twice;
    std::uintptr_t values[16];
    fill(values, 16);
    __asm__ volatile(WITH_MOVED_STACK : CALLS);
    fill(values, 16);
}

void on_fault(int)
{
    static const char text[] = "the program's handler was called\n";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(3);
}

FRAME moved_stack_with_handler()
{
    signal(SIGSEGV, on_fault);
    moved_stack();
}

sigjmp_buf before;

void jump_out(int)
{
    siglongjmp(before, 1);
}

// The program's handler would leave a walk through a damaged stack.
FRAME left_by_jump()
{
    signal(SIGSEGV, jump_out);
    if (sigsetjmp(before, 1) == 0)
        without_frame();
    cross_twice();
    NO_TAIL_CALL;
}

const named_case modes[] = {
    {"once", cross},
    {"twice", cross_twice},
    {"ways", cross_by_ways},
    {"often", cross_often},
    {"threads", cross_in_threads},
    {"recursion", [] { recurse(5000); }},
    {"signal", in_signal},
    {"signal-elsewhere", in_signal_elsewhere},
    {"aligned", call_aligned},
    {"interrupted", interrupted},
    {"fork", fork_then_cross},
    {"without-frame", without_frame},
    {"freed-frame", freed_frame},
    {"moved-stack", moved_stack_with_handler},
    {"left-by-jump", left_by_jump},
};

} // namespace

NAMED_CASES_MAIN(modes)
