// The strings of a C++ module cross both ways: libstdc++ frees what the module allocated, and the
// module deletes what libstdc++ got from libc. homefree/check.h from C++17.
#include "../shim/load_cxx.h"

#include <homefree/check.h>

namespace
{

const module_cxx *module;

} // namespace

START_TEST(libstdcxx_frees_what_the_module_allocated)
{
    hf_ck_assert_crossed("module_cxx", "libstdc++", {
        std::string text = module->text(1000);
        text.append(5000, 'x'); // in libstdc++, which frees the module's block
    });
}
END_TEST

START_TEST(the_module_frees_what_libstdcxx_allocated)
{
    hf_ck_assert_crossed("libc.so", "module_cxx", {
        auto *text = new std::string;
        text->append(1000, 'x'); // in libstdc++, whose memory is libc's
        module->destroy(text);
    });
}
END_TEST

START_TEST(a_module_alone)
{
    std::string *text = nullptr;
    hf_ck_assert_no_crossing(text = module->new_text(1000));
    hf_ck_assert_owner(text->data(), HF_OWNER_HEAP);
    hf_ck_assert_freed_once(text, module->destroy(text));
}
END_TEST

int main(int count, char **arguments)
{
    module = load_module_cxx(count, arguments);
    return RUN_TESTS("strings", libstdcxx_frees_what_the_module_allocated,
                     the_module_frees_what_libstdcxx_allocated, a_module_alone);
}
