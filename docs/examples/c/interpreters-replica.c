/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/interpreters/replica.h>, as alloc/manual/pages.py takes them. */
#include <homefree/interpreters.h>

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A model in each interpreter, made by a function there; a call goes to a free one. */
static struct hf_replica *model_of(struct hf_interpreters *group, const char *maker)
{
    struct hf_replica *model = NULL;
    struct hf_value problem = {0};
    if (hf_replica_new(&model, group, maker, NULL, 0, &problem) != 0 &&
        problem.kind == HF_VALUE_ERROR)
        fprintf(stderr, "%s", problem.as.error->traceback);
    hf_value_clear(&problem);
    return model;
}

static int64_t predict(struct hf_replica *model, const char *method, int64_t input)
{
    struct hf_value argument = {.kind = HF_VALUE_INT, .as.integer = input}, result = {0};
    int error = hf_replica_call(model, method, &argument, 1, &result);
    int64_t answer = error == 0 && result.kind == HF_VALUE_INT ? result.as.integer : -1;
    hf_value_clear(&result);
    return answer;
}

static int64_t made_there(struct hf_interpreters *group)
{
    struct hf_replica *model = model_of(group, "__main__:Model");
    int64_t answer = predict(model, "predict", 2);
    hf_replica_drop(model);
    return answer;
}

/* The same of a pickle: here of the object that a call has returned. */
static struct hf_replica *of_pickle(struct hf_interpreters *group, const char *function)
{
    struct hf_replica *model = NULL;
    struct hf_value pickle = {0};
    if (hf_interpreters_call(group, function, NULL, 0, &pickle) == 0)
        hf_replica_from_pickle(&model, group, &pickle, NULL);
    hf_value_clear(&pickle);
    return model;
}

/* The same of a package, which brings the model's code (homefree.package in Python). */
static struct hf_replica *of_package(struct hf_interpreters *group, const char *path)
{
    struct hf_replica *model = NULL;
    struct hf_value problem = {0};
    if (hf_replica_from_package(&model, group, path, "models", "model.pkl", &problem) != 0 &&
        problem.kind == HF_VALUE_ERROR)
        fprintf(stderr, "%s: %s\n", path, problem.as.error->message);
    hf_value_clear(&problem);
    return model;
}

static const char set_up[] = "import homefree.package, os, tempfile\n"
                             "class Model:\n"
                             "    def predict(self, number): return 3 * number\n"
                             "def pickled(): return Model()\n"
                             "def write(path):\n"
                             "    with homefree.package.Writer(path) as writer:\n"
                             "        writer.extern('__main__')\n"
                             "        writer.add_pickle('models', 'model.pkl', [1, 2, 3])\n";

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    void *python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    assert(python != NULL);
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options, .count = 2, .set_up = set_up};
    char why[500];
    int error = hf_interpreters_start(&group, &options, why, sizeof why);
    if (error != 0)
        fprintf(stderr, "%s\n", why);
    assert(error == 0);
    assert(made_there(group) == 6);

    struct hf_replica *model = of_pickle(group, "__main__:pickled");
    assert(model != NULL && predict(model, "predict", 3) == 9);
    hf_replica_drop(model);

    char path[] = "example-XXXXXX.hfp";
    int file = mkstemps(path, 4);
    assert(file >= 0);
    close(file);
    struct hf_value name = {.kind = HF_VALUE_TEXT, .as.text = path};
    error = hf_interpreters_call(group, "__main__:write", &name, 1, NULL);
    assert(error == 0);
    model = of_package(group, path);
    assert(model != NULL && predict(model, "index", 3) == 2);
    hf_replica_drop(model);
    error = hf_interpreters_end(group, -1);
    unlink(path);
    return error == 0 ? 0 : 1;
}
