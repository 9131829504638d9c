/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/interpreters/value.h>, as alloc/manual/pages.py takes them. */
#include <homefree/interpreters.h>

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>

/* Numbers that Python reads where they are, and an answer of any kind. */
static double sum(struct hf_interpreters *group, double *numbers, size_t count)
{
    struct hf_memory memory = {.pointer = numbers,
                               .bytes = count * sizeof *numbers,
                               .format = "d",
                               .item_size = sizeof *numbers,
                               .read_only = true};
    struct hf_value argument = {.kind = HF_VALUE_MEMORY, .as.memory = &memory}, result = {0};
    hf_interpreters_call(group, "math:fsum", &argument, 1, &result);
    if (result.kind == HF_VALUE_ERROR)
        fprintf(stderr, "%s: %s\n", result.as.error->type, result.as.error->message);
    double answer = result.kind == HF_VALUE_FLOAT ? result.as.real : -1;
    hf_value_clear(&result);
    assert(result.kind == HF_VALUE_NONE);
    return answer;
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    void *python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    assert(python != NULL);
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options, .count = 1};
    int error = hf_interpreters_start(&group, &options, NULL, 0);
    assert(error == 0);
    double numbers[] = {0.5, 1.5, 2};
    assert(sum(group, numbers, 3) == 4);
    return hf_interpreters_end(group, -1) == 0 ? 0 : 1;
}
