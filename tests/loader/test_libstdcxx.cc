/*
 * Objects of libstdc++ that a module made are grown and destroyed outside of it, and the other way
 * round: libstdc++'s own code frees the module's blocks, which is where a module with a private
 * allocator dies.
 */
#include "../shim/load_cxx.h"
#include "heap.h"

#include <homefree/homefree.h>
#include <numeric>
#include <stdexcept>

namespace
{

const module_cxx *module;

enum : std::size_t { LARGE = 1 << 20 };

} // namespace

START_TEST(a_string_is_grown_by_libstdcxx)
{
    std::string text = module->text(LARGE);
    const void *before = text.data();
    ck_assert(hf_owns(before));
    text.append(LARGE, 'h');
    ck_assert(!hf_owns(text.data()));
    assert_gone(before);
    ck_assert_uint_eq(text.size(), 2 * LARGE);

    for (std::size_t length = 16; length < 5000; length *= 2) {
        std::string appended = module->text(length), inserted = module->text(length),
                    reserved = module->text(length), replaced = module->text(length),
                    assigned = module->text(length), shrunk = module->text(length);
        ck_assert(hf_owns(appended.data()) && hf_owns(shrunk.data()));
        for (int i = 0; i < 100; i++)
            appended.append("host").push_back('!');
        inserted.insert(0, 10000, 'h');
        reserved.reserve(10000);
        replaced.replace(1, 2, std::string(10000, 'h'));
        assigned = std::string(10000, 'h');
        shrunk.resize(1);
        shrunk.shrink_to_fit();
        ck_assert_uint_eq(appended.size(), length + 500);
        ck_assert_uint_eq(inserted.size(), length + 10000);
        ck_assert_int_eq(replaced[0], 'm');
    }
}
END_TEST

START_TEST(a_string_of_the_host_is_grown_by_the_module)
{
    std::string text(100, 'h');
    ck_assert(!hf_owns(text.data()));
    module->grow(text, 1000);
    ck_assert(hf_owns(text.data()));
    ck_assert_uint_eq(text.size(), 6100);
    text += std::string(100000, 'h');
    module->destroy(new std::string(100000, 'h'));
    delete module->new_text(LARGE);
}
END_TEST

START_TEST(a_vector_is_moved_and_grown_on_both_sides)
{
    std::vector<std::string> list = module->list(100);
    ck_assert(hf_owns(list.data()) && hf_owns(list[0].data()));
    std::vector<std::string> moved = std::move(list);
    for (int i = 0; i < 1000; i++)
        moved.emplace_back(100, 'h');
    module->grow_list(moved, 2000);
    moved.erase(moved.begin(), moved.begin() + 50);
    moved.shrink_to_fit();
    ck_assert_uint_eq(moved.size(), 3050);
    list = std::move(moved);
    list.clear();
}
END_TEST

START_TEST(streams)
{
    auto stream = module->stream("start ");
    for (int i = 0; i < 10000; i++)
        *stream << i << ' ';
    ck_assert_uint_gt(stream->str().size(), 40000);
    stream->str(std::string(100000, 'h'));
    *stream << module->text(LARGE);
    stream.reset();
    module->stream("never taken");
}
END_TEST

START_TEST(objects_are_destroyed_elsewhere)
{
    std::unique_ptr<base> object = module->object(7);
    ck_assert(hf_owns(object.get()));
    ck_assert_int_eq(object->value(), 7);
    object.reset();
    module->drop(module->object(8));

    struct hosts : base {
        int value() const override
        {
            return 9;
        }
        std::string padding = std::string(1000, 'h');
    };
    module->drop(std::make_unique<hosts>());

    std::shared_ptr<base> shared = module->shared_object(10);
    std::weak_ptr<base> weak = shared;
    shared.reset();
    ck_assert(weak.expired());

    std::function<int(int)> function = module->function(30);
    std::function<int(int)> copy = function;
    ck_assert_int_eq(copy(12), 42);
}
END_TEST

START_TEST(exceptions)
{
    bool caught = false;
    try {
        module->throw_error(std::string(10000, 'h'));
    } catch (const std::runtime_error &error) {
        caught = std::string(error.what()).size() == 10000;
    }
    ck_assert(caught);
}
END_TEST

int main(int count, char **arguments)
{
    module = load_module_cxx(count, arguments);
    return RUN_TESTS("libstdc++", a_string_is_grown_by_libstdcxx,
                     a_string_of_the_host_is_grown_by_the_module,
                     a_vector_is_moved_and_grown_on_both_sides, streams,
                     objects_are_destroyed_elsewhere, exceptions);
}
