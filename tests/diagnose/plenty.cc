/*
 * Makes more findings than a report had room for: each of WAYS places allocates for each of WAYS
 * others, at the end of a deep stack. Then, by its arguments: "ends"; "killed"; "forks", where the
 * child makes all of them again.
 */
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace
{

constexpr std::size_t ways = 120;
constexpr int depth = 60;

template <std::size_t number> __attribute__((noinline)) void *take()
{
    void *block = operator new(16);
    __asm__ volatile("" : "+r"(block) : "i"(number));
    return block;
}

template <std::size_t number> __attribute__((noinline)) void give(void *block)
{
    std::free(block);
    __asm__ volatile("" : : "i"(number));
}

template <std::size_t... numbers>
constexpr std::array<void *(*)(), ways> takers(std::index_sequence<numbers...> /*all*/)
{
    return {take<numbers>...};
}

template <std::size_t... numbers>
constexpr std::array<void (*)(void *), ways> givers(std::index_sequence<numbers...> /*all*/)
{
    return {give<numbers>...};
}

__attribute__((noinline)) void cross(int left)
{
    if (left > 0)
        cross(left - 1);
    else
        for (auto taker : takers(std::make_index_sequence<ways>()))
            for (auto giver : givers(std::make_index_sequence<ways>()))
                giver(taker());
    __asm__ volatile("");
}

} // namespace

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "ends";
    cross(depth);
    if (std::strcmp(what, "killed") == 0)
        std::raise(SIGKILL);
    if (std::strcmp(what, "forks") == 0) {
        const pid_t child = fork();
        if (child == 0) {
            cross(depth);
            std::exit(0);
        }
        int status = -1;
        return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
    }
    return 0;
}
