/*
 * Lets the stack overflow at each depth of an allocation and a free, from ever new places, and
 * leaves each overflow by siglongjmp(3) from a handler on an alternate stack. Then goes on at many
 * further places. Each place frees with the wrong function, so that there is something to record.
 * Without homefree nothing is wrong with that: these calls take no lock of libc's.
 */
#include <alloca.h>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>
#include <utility>

enum { STACK = 256 << 10, GUARD = 16384, STEP = 48, OVERFLOWS = 256, AFTERWARDS = 256 };

template <size_t number> static __attribute__((noinline)) void allocate()
{
    void *block = ::operator new(32);
    __asm__ volatile("" : "+r"(block));
    std::free(block);
    __asm__ volatile("" ::"i"(number)); /* no other number's code */
}

template <size_t... numbers>
static std::array<void (*)(), sizeof...(numbers)> places(std::index_sequence<numbers...>)
{
    return {{allocate<numbers>...}};
}

static const auto allocates = places(std::make_index_sequence<OVERFLOWS + AFTERWARDS>());
static sigjmp_buf before;
static char *stack; /* behind the guard */

static void on_overflow(int)
{
    siglongjmp(before, 1);
}

/* Calls with so many bytes of stack left. */
static __attribute__((noinline)) void call_with(size_t left, void (*function)())
{
    const size_t all = static_cast<size_t>(static_cast<char *>(__builtin_frame_address(0)) - stack);
    char *capacity = static_cast<char *>(alloca(all - left));
    __asm__ volatile("" : "+r"(capacity));
    function();
    __asm__ volatile("" : "+r"(capacity));
}

static void *overflow(void *)
{
    static char alternate[65536];
    const stack_t on = {alternate, 0, sizeof alternate};
    if (sigaltstack(&on, nullptr) != 0)
        std::abort();
    allocate<OVERFLOWS + AFTERWARDS>();
    for (size_t i = 0; i < OVERFLOWS; i++)
        if (sigsetjmp(before, 1) == 0)
            call_with(i * STEP + 512, allocates[i]);
    for (size_t i = 0; i < AFTERWARDS; i++)
        allocates[OVERFLOWS + i]();
    return nullptr;
}

int main()
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct sigaction action = {};
    action.sa_handler = on_overflow;
    action.sa_flags = SA_ONSTACK;
    char *memory = static_cast<char *>(
        mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    stack = memory + GUARD;
    if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0 ||
        sigaction(SIGSEGV, &action, nullptr) != 0 || pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, STACK) != 0 ||
        pthread_create(&thread, &attributes, overflow, nullptr) != 0 ||
        pthread_join(thread, nullptr) != 0)
        return 1;
    std::puts("survived");
    return 0;
}
