/* NVIDIA's own runtime on a machine without a device: it is refused with its reason, again and
 * again, and nothing is left behind. With a device it is found, and no context is created. */
#include "alloc/base/options_parse.h"
#include "seam.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

static const char *path;

static void find(void *unused)
{
    char option[4096], reason[512];
    (void)unused;
    snprintf(option, sizeof option, "cuda:%s", path);
    hf_options_parse(option, &hf_options);
    for (int i = 0; i < 3; i++) {
        const int found = hf_cuda_find();
        hf_cuda_reason(reason, sizeof reason);
        if (found == 0) {
            must(hf_cuda_devices() > 0 && reason[0] == '\0');
            must(!hf_cuda_has_context(0));
            return;
        }
        must(found == -ENODEV && !hf_cuda_found());
        must(strstr(reason, path) != NULL || strstr(reason, "libcudart") != NULL);
        must(strstr(reason, ": cudaGetDeviceCount: cudaError") != NULL);
        must(hf_cuda_devices() == -ENODEV);
    }
}
CALL_TEST(found_or_refused, find, NULL)

static void find_loaded(void *unused)
{
    int (*peek)(void);
    void *handle = dlopen(path, RTLD_NOW);
    must(handle != NULL);
    *(void **)&peek = dlsym(handle, "cudaPeekAtLastError");
    must(peek != NULL);
    const int before = peek(); /* without a driver, that it is missing */
    find(unused);
    must(peek() == before);
}
CALL_TEST(the_last_error_is_kept, find_loaded, NULL)

int main(int count, char **arguments)
{
    const char *pattern;
    glob_t found;
    TAKE_ARGUMENTS(&pattern);
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("there is no %s: tests/run fetches NVIDIA's wheels\n", pattern);
        return SKIPPED;
    }
    path = found.gl_pathv[0];
    const int result = RUN_SUITE(found_or_refused, the_last_error_is_kept);
    globfree(&found);
    return result;
}
