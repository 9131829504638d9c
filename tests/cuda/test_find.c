/* A CUDA runtime is found where it is loaded already, by soname, or where the option `cuda` says,
 * and by a later call if it was not there before. One that cannot be used is refused with a reason.
 */
#include "alloc/base/options_parse.h"
#include "control.h"
#include "process.h"
#include "scratch.h"
#include "seam.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *directory, *library_path;

static const char *in_directory(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void use_option(const char *path)
{
    char text[sizeof "cuda:" + 4096];
    snprintf(text, sizeof text, "cuda:%s", path);
    hf_options_parse(text, &hf_options);
}

/* Nothing but what is loaded may be found: the machine may have a runtime of its own. */
static void find_nothing_else(void)
{
    use_option("/nowhere/libcudart.so.13");
}

static int is_loaded(const char *name)
{
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next)
        if (strstr(map->l_name, name) != NULL)
            return 1;
    return 0;
}

static void must_be_found(void)
{
    errno = EBADF;
    must(hf_cuda_find() == 0);
    must(errno == EBADF);
    must(hf_cuda_found());
    must(hf_cuda_devices() == 2);
    must(reason_is_empty());
    must(hf_cuda_find() == 0);
}

static void must_be_refused(const char *reason)
{
    errno = EBADF;
    must(hf_cuda_find() == -ENODEV);
    must(errno == EBADF);
    must(!hf_cuda_found());
    must(reason_has(reason));
    must(hf_cuda_devices() == -ENODEV);
}

/* ---- what is loaded already ---- */

static void loaded(void *unused)
{
    (void)unused;
    find_nothing_else();
    load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    must_be_found();
}
CALL_TEST(one_that_is_loaded, loaded, NULL)

/* As wheels name theirs. */
static void loaded_hashed(void *unused)
{
    char path[4096];
    (void)unused;
    find_nothing_else();
    snprintf(path, sizeof path, "%s/libcudart-9335f6a2.so.12", scratch_directory);
    must(symlink(in_directory("libcudart.so.13"), path) == 0);
    load(in_directory("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(unlink(path) == 0);
    must(handle != NULL);
    must_be_found();
}
CALL_TEST(one_with_another_name, loaded_hashed, NULL)

static void stays(void *unused)
{
    (void)unused;
    find_nothing_else();
    void *handle = load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    must_be_found();
    must(dlclose(handle) == 0);
    must(is_loaded("libcudart"));
    must(hf_cuda_current() == 0);
}
CALL_TEST(one_that_is_found_stays_loaded, stays, NULL)

static void later(void *unused)
{
    (void)unused;
    find_nothing_else();
    must_be_refused(
        "the file that the option cuda names cannot be loaded: /nowhere/libcudart.so.13");
    load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    must_be_found();
}
CALL_TEST(one_that_appears_later, later, NULL)

/* ---- what cannot be used ---- */

static void unknown(void *unused)
{
    (void)unused;
    find_nothing_else();
    setenv("DOUBLE_CUDA_VERSION", "14010", 1);
    void *handle = load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    must_be_refused("libcudart.so.13: version 14.1 of the CUDA runtime; homefree knows 11 to 13; "
                    "the file that the option cuda names cannot be loaded: /nowhere/");
    must(dlclose(handle) == 0);
    must(!is_loaded("libcudart"));
}
CALL_TEST(an_unknown_version, unknown, NULL)

static void no_device(void *unused)
{
    (void)unused;
    find_nothing_else();
    setenv("DOUBLE_CUDA_DEVICES", "0", 1);
    load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    must_be_refused("libcudart.so.13: cudaGetDeviceCount: cudaErrorNoDevice (100)");
    void (*devices)(int);
    *(void **)&devices = symbol_of(load(in_directory("libcuda.so.1"), RTLD_NOW), "double_devices");
    devices(2);
    must_be_found();
}
CALL_TEST(no_device_until_later, no_device, NULL)

static void an_old_driver(void *unused)
{
    (void)unused;
    find_nothing_else();
    load(in_directory("libcudart.so.13"), RTLD_NOW | RTLD_LOCAL);
    void (*fail_call)(const char *, unsigned, int);
    *(void **)&fail_call = symbol_of(load(in_directory("libcuda.so.1"), RTLD_NOW), "double_fail");
    fail_call("cudaGetDeviceCount", 1, 35);
    must_be_refused("cudaErrorInsufficientDriver (35)");
    must_be_found();
}
CALL_TEST(a_driver_that_is_too_old, an_old_driver, NULL)

/* A copy, which the dynamic linker takes for another library. */
static void copy_runtime(const char *name)
{
    char path[4096], buffer[65536];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", scratch_directory, name);
    FILE *from = fopen(in_directory("libcudart.so.13"), "rb"), *to = fopen(path, "wb");
    must(from != NULL && to != NULL);
    while ((size = fread(buffer, 1, sizeof buffer, from)) > 0)
        must(fwrite(buffer, 1, size, to) == size);
    must(fclose(from) == 0 && fclose(to) == 0);
}

/* The runtime of the newest version does not work with the driver, the one before it does. */
static void one_refused(int error)
{
    void (*fail_call)(const char *, unsigned, int);
    *(void **)&fail_call = symbol_of(load("libcuda.so.1", RTLD_NOW), "double_fail");
    fail_call("cudaGetDeviceCount", 1, error);
    must_be_found();
    must(is_loaded("libcudart.so.13") && is_loaded("libcudart.so.12"));
}

START_TEST(an_older_runtime_for_an_older_driver)
{
    char path[8192];
    copy_runtime("libcudart.so.12");
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s:%s", directory, scratch_directory);
    assert_succeeds(OUTCOME_OF_SELF(path, directory, "one refused", "35"));
    assert_succeeds(OUTCOME_OF_SELF(path, directory, "one refused", "36"));
    assert_succeeds(OUTCOME_OF_SELF(path, directory, "one refused", "803"));
}
END_TEST

static void another_library(void *unused)
{
    (void)unused;
    use_option(in_directory("libcuda.so.1"));
    must_be_refused("libcuda.so.1: it has no function cuda");
}
CALL_TEST(a_library_that_is_no_runtime, another_library, NULL)

/* ---- loading one ---- */

static void option(void *unused)
{
    (void)unused;
    use_option(in_directory("libcudart.so.13"));
    must(!is_loaded("libcudart"));
    must_be_found();
    must(is_loaded("libcudart"));
}
CALL_TEST(the_file_that_the_option_names, option, NULL)

START_TEST(by_soname)
{
    assert_succeeds(OUTCOME_OF_SELF(library_path, directory, "by soname"));
}
END_TEST

/* Asking never loads anything. */
static void asking(void *unused)
{
    struct hf_cuda_address address;
    int local;
    (void)unused;
    must(!hf_cuda_found());
    must(hf_cuda_address(&local, &address) == 0 && address.type == HF_CUDA_NONE);
    must(hf_cuda_current() == 0);
    must(!hf_cuda_has_context(0));
    must(hf_cuda_devices() == -ENODEV);
    must(hf_cuda_wait(-1) == -ENODEV);
    must(hf_cuda_lock(&local, sizeof local) == -ENODEV);
    must(hf_cuda_unlock(&local) == -ENODEV);
    must(reason_is_empty());
    must(!is_loaded("libcudart") && !is_loaded("libcuda"));
}
CALL_TEST(asking_loads_nothing, asking, NULL)

/* The table of functions cannot be written once it is filled. */
extern char sealed[] __asm__("__start_hf_sealed") __attribute__((visibility("hidden")));
void hf_seal_start(void);

static void sealed_table(void *unused)
{
    hf_seal_start();
    loaded(unused);
    must(strcmp(permissions_at(sealed), "r--p") == 0);
}
CALL_TEST(the_table_is_sealed, sealed_table, NULL)

int main(int count, char **arguments)
{
    static char path[4096];
    directory = count > 1 ? arguments[1] : "";
    if (count > 2) {
        if (count > 3)
            one_refused((int)strtol(arguments[3], NULL, 10));
        else
            must_be_found();
        return 0;
    }
    TAKE_ARGUMENTS(&directory);
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", directory);
    library_path = path;
    TCase *files = NEW_CASE("files", one_with_another_name, an_older_runtime_for_an_older_driver);
    tcase_add_checked_fixture(files, make_scratch, remove_scratch);
    TCase *others = NEW_CASE("others", one_that_is_loaded, one_that_is_found_stays_loaded,
                             one_that_appears_later, an_unknown_version, no_device_until_later,
                             a_driver_that_is_too_old, a_library_that_is_no_runtime,
                             the_file_that_the_option_names, by_soname, asking_loads_nothing,
                             the_table_is_sealed);
    return RUN_CASES("find", files, others);
}
