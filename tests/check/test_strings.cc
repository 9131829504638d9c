// The strings of a C++ module cross both ways: libstdc++ frees what the module allocated, and the
// module deletes what libstdc++ got from libc. homefree/check.h from C++17.
#include "../shim/module_cxx.h"

#include <homefree/check.h>

#include <dlfcn.h>

namespace
{

const module_cxx *module;

} // namespace

START_TEST(libstdcxx_frees_what_the_module_allocated)
{
    hf_ck_assert_crossed("module_cxx", "libstdc++", {
        std::string text = module->text(1000);
        text.append(5000, 'x'); // in libstdc++, which gives the module's block back
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
    if (count != 2)
        return 2;
    void *handle = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
        return 2;
    module = reinterpret_cast<const module_cxx *(*)()>(dlsym(handle, "module_cxx_functions"))();
    Suite *suite = suite_create("strings");
    TCase *tcase = tcase_create("strings");
    tcase_add_test(tcase, libstdcxx_frees_what_the_module_allocated);
    tcase_add_test(tcase, the_module_frees_what_libstdcxx_allocated);
    tcase_add_test(tcase, a_module_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
