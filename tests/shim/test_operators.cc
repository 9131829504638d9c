/*
 * All twenty replaceable C++ operators of a module use the heap, behave as the standard says, and
 * throw exceptions that the host can catch.
 */
#include "load_cxx.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <homefree/homefree.h>
#include <new>

namespace
{

const module_cxx *module;
volatile std::size_t absurd = SIZE_MAX / 2 + 1;

/* Allocates in a library that knows nothing of homefree, by libstdc++'s own operator. */
void *from_host(std::size_t size, std::size_t alignment, bool array)
{
    const auto align = static_cast<std::align_val_t>(alignment);
    if (alignment == 0)
        return array ? operator new[](size) : operator new(size);
    return array ? operator new[](size, align) : operator new(size, align);
}

bool takes_alignment(int form)
{
    return form >= d_aligned;
}

bool is_array(int form)
{
    return form % 2 == 1;
}

int calls;

} // namespace

START_TEST(every_new_is_the_heaps_and_aligned)
{
    for (int array = 0; array < 2; array++)
        for (int nothrow = 0; nothrow < 2; nothrow++)
            for (std::size_t alignment = 0; alignment <= 1 << 16;
                 alignment = alignment == 0 ? 1 : alignment * 2)
                for (std::size_t size = 0; size < 100000; size = size * 3 + 1) {
                    void *ptr = module->allocate(size, alignment, array != 0, nothrow != 0);
                    ck_assert_ptr_nonnull(ptr);
                    ck_assert(hf_owns(ptr));
                    ck_assert_uint_ge(hf_usable_size(ptr), size);
                    const std::size_t least =
                        size < alignof(std::max_align_t) ? 8 : alignof(std::max_align_t);
                    ck_assert_uint_eq(reinterpret_cast<std::uintptr_t>(ptr) %
                                          (alignment != 0 ? alignment : least),
                                      0);
                    std::memset(ptr, 1, size);
                    module->release(ptr, size, alignment, alignment != 0 ? d_aligned : d_plain);
                }
}
END_TEST

START_TEST(size_zero_gives_distinct_pointers)
{
    void *a = module->allocate(0, 0, false, false), *b = module->allocate(0, 0, false, false);
    ck_assert_ptr_ne(a, b);
    module->release(a, 0, 0, d_plain);
    module->release(b, 0, 0, d_plain);
}
END_TEST

START_TEST(every_delete_frees)
{
    for (int form = 0; form < forms; form++) {
        const std::size_t alignment = takes_alignment(form) ? 128 : 0;
        void *ptr = module->allocate(256, alignment, is_array(form), false);
        module->release(ptr, 256, alignment, static_cast<enum form>(form));
        /* The same thread gets the last block of a size back. */
        void *again = module->allocate(256, alignment, is_array(form), false);
        ck_assert_ptr_eq(again, ptr);
        module->release(again, 256, alignment, static_cast<enum form>(form));
        module->release(nullptr, 0, alignment, static_cast<enum form>(form));
    }
}
END_TEST

START_TEST(every_delete_sends_foreign_pointers_home)
{
    for (int form = 0; form < forms; form++) {
        const std::size_t alignment = takes_alignment(form) ? 128 : 0;
        void *ptr = from_host(256, alignment, is_array(form));
        ck_assert(!hf_owns(ptr));
        module->release(ptr, 256, alignment, static_cast<enum form>(form));
    }
}
END_TEST

START_TEST(the_host_deletes_what_the_module_made)
{
    operator delete(module->allocate(100, 0, false, false));
    operator delete[](module->allocate(100, 0, true, true));
    operator delete (module->allocate(100, 64, false, false), std::align_val_t{64});
    operator delete (module->allocate(100, 0, false, false), std::size_t{100});
    std::free(module->allocate(100, 0, false, false));
}
END_TEST

START_TEST(nothrow_gives_null)
{
    for (int array = 0; array < 2; array++) {
        ck_assert_ptr_null(module->allocate(absurd, 0, array != 0, true));
        ck_assert_ptr_null(module->allocate(absurd, 64, array != 0, true));
    }
}
END_TEST

START_TEST(the_host_catches_bad_alloc)
{
    for (int array = 0; array < 2; array++)
        for (std::size_t alignment = 0; alignment <= 64; alignment += 64) {
            bool caught = false;
            try {
                (void)module->allocate(absurd, alignment, array != 0, false);
            } catch (const std::bad_alloc &) {
                caught = true;
            }
            ck_assert(caught);
        }
}
END_TEST

START_TEST(a_new_handler_is_called_until_it_gives_up)
{
    for (int nothrow = 0; nothrow < 2; nothrow++) {
        calls = 0;
        std::set_new_handler([] {
            if (++calls == 3)
                std::set_new_handler(nullptr);
        });
        bool caught = false;
        void *ptr = &caught;
        try {
            ptr = module->allocate(absurd, 0, false, nothrow != 0);
        } catch (const std::bad_alloc &) {
            caught = true;
        }
        ck_assert_int_eq(calls, 3);
        ck_assert(caught == (nothrow == 0));
        ck_assert(nothrow == 0 || ptr == nullptr);
    }
}
END_TEST

START_TEST(a_new_handler_may_throw)
{
    struct out_of_luck : std::bad_alloc {
    };
    std::set_new_handler([] { throw out_of_luck(); });
    for (std::size_t alignment = 0; alignment <= 64; alignment += 64) {
        bool caught = false;
        try {
            (void)module->allocate(absurd, alignment, true, false);
        } catch (const out_of_luck &) {
            caught = true;
        }
        ck_assert(caught);
        ck_assert_ptr_null(module->allocate(absurd, alignment, true, true));
    }
    std::set_new_handler(nullptr);
}
END_TEST

int main(int count, char **arguments)
{
    module = load_module_cxx(count, arguments);
    return RUN_TESTS(
        "operators", every_new_is_the_heaps_and_aligned, size_zero_gives_distinct_pointers,
        every_delete_frees, every_delete_sends_foreign_pointers_home,
        the_host_deletes_what_the_module_made, nothrow_gives_null, the_host_catches_bad_alloc,
        a_new_handler_is_called_until_it_gives_up, a_new_handler_may_throw);
}
