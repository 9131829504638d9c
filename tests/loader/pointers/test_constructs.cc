// A C++ program that is linked with an allocator's library, such as the distribution's jemalloc
// (blender), gets its operators from there. With homefree in front of it, their free() is
// homefree's, before the constructor of homefree has run.
#include "suite.h"

#include <cstdlib>
#include <cstring>
#include <new>

extern "C" int constructed;

START_TEST(its_librarys_constructor_has_run)
{
    ck_assert_int_eq(constructed, 1000);
}
END_TEST

START_TEST(its_blocks_go_home)
{
    for (size_t size = 1; size < 100 << 20; size *= 3) {
        ::operator delete(std::memset(::operator new(size), 1, size));
        std::free(std::memset(std::malloc(size), 1, size));
    }
}
END_TEST

int main()
{
    return RUN_SUITE(its_librarys_constructor_has_run, its_blocks_go_home);
}
