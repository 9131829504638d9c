/*
 * operator new without memory, in a region of 256 MiB: the C++ runtime's takes over, calls the
 * handler, which makes room, and gets its block from malloc(). The block is operator new's all the
 * same.
 */
#include <cstddef>
#include <cstdio>
#include <new>

namespace
{

constexpr std::size_t large = std::size_t{150} << 20;
int calls;
void *reserve;

void make_capacity()
{
    calls++;
    ::operator delete(reserve);
    reserve = nullptr;
}

void *take()
{
    void *block = ::operator new(large);
    __asm__ volatile("" : "+r"(block));
    return block;
}

} // namespace

int main()
{
    std::set_new_handler(make_capacity);
    reserve = take();
    ::operator delete(take());
    std::printf("%d\n", calls);
    return 0;
}
