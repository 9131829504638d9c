/*
 * Calls the malloc family on coroutines, and prints how many bytes of their stacks each function
 * took at most: "malloc 2152".
 *
 * usage: coroutines correct|faulty [LIBRARY]
 *   faulty   frees with the wrong function, from many places
 *   LIBRARY  is loaded before
 */
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

enum { STACK = 16 << 10, MANY = 2500, PLACES = 64, PAINT = 0x5a };

static char *stack;
static ucontext_t outside, inside;
static void (*work)();
static size_t size;
static void *block;

static void run()
{
    work();
}

/* The bytes that a function takes, its caller's included. */
static size_t bytes_of(void (*function)())
{
    std::memset(stack, PAINT, STACK);
    work = function;
    if (getcontext(&inside) != 0)
        std::abort();
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, run, 0);
    if (swapcontext(&outside, &inside) != 0)
        std::abort();
    return static_cast<size_t>(
        std::find_if(stack, stack + STACK, [](char byte) { return byte != PAINT; }) - stack);
}

static void do_nothing()
{
}

struct function {
    const char *name;
    void (*call)();
    size_t most;
};

static void measure(function &one)
{
    static const size_t left_by_nothing = bytes_of(do_nothing);
    const size_t left = bytes_of(one.call);
    one.most = std::max(one.most, left_by_nothing - std::min(left, left_by_nothing));
}

static function functions[] = {
    {"malloc", [] { block = std::malloc(size); }, 0},
    {"free", [] { std::free(block); }, 0},
    {"calloc", [] { block = std::calloc(1, size); }, 0},
    {"realloc", [] { block = std::realloc(block, size); }, 0},
    {"aligned_alloc", [] { block = std::aligned_alloc(4096, size & -4096UL); }, 0},
};

static void all_functions()
{
    enum { MALLOC, FREE, CALLOC, REALLOC, ALIGNED };
    static void *blocks[MANY];
    for (size = 1; size < (size_t{4} << 20); size += size / 3 + 1)
        for (const int first : {MALLOC, CALLOC}) {
            measure(functions[first]);
            const size_t before = size;
            size *= 2;
            measure(functions[REALLOC]);
            measure(functions[FREE]);
            size += 4096;
            measure(functions[ALIGNED]);
            measure(functions[FREE]);
            size = before;
        }
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < MANY; i++) {
            size = i * 97 % 60000 + 1;
            measure(functions[MALLOC]);
            blocks[i] = block;
        }
        for (void *one : blocks) {
            block = one;
            measure(functions[FREE]);
        }
    }
}

template <size_t number> static __attribute__((noinline)) void free_wrongly()
{
    void *wrong = ::operator new(32);
    __asm__ volatile("" : "+r"(wrong));
    std::free(wrong);
    __asm__ volatile("" ::"i"(number)); /* no other number's code */
}

template <size_t... numbers>
static std::array<void (*)(), sizeof...(numbers)> places(std::index_sequence<numbers...>)
{
    return {{free_wrongly<numbers>...}};
}

static void all_places()
{
    function wrong = {"wrong", nullptr, 0};
    for (int turn = 0; turn < 3; turn++)
        for (void (*place)() : places(std::make_index_sequence<PLACES>())) {
            wrong.call = place;
            measure(wrong);
        }
    std::printf("%s %zu\n", wrong.name, wrong.most);
}

static void *in_thread(void *)
{
    all_functions();
    return nullptr;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    if (count == 3 && dlopen(arguments[2], RTLD_NOW) == nullptr)
        return 3;
    stack = static_cast<char *>(
        mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (stack == MAP_FAILED || count < 2)
        return 2;
    if (std::strcmp(arguments[1], "faulty") == 0) {
        all_places();
        return 0;
    }
    all_functions();
    if (pthread_create(&thread, nullptr, in_thread, nullptr) != 0 ||
        pthread_join(thread, nullptr) != 0)
        return 4;
    for (const function &one : functions)
        std::printf("%s %zu\n", one.name, one.most);
    return 0;
}
