/*
 * A program that starts and ends an interpreter twice, with the heap installed in between, before,
 * and never again: what outlives an interpreter is still freed, and the next one works. "between":
 * three times, and not for the second one, so that CPython has forgotten its allocators when the
 * heap is installed before the third.
 *
 * usage: embed LIBPYTHON WHEN MODE [OTHER]
 *     WHEN: before | inside | between; MODE: arena | full; OTHER: one that it looks at first
 */
#include "library.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static int free_threaded; /* large and small objects are mimalloc's there */

static void *find(const char *name)
{
    return symbol_of(library, name);
}

#define CALL(result, name, parameters) (*(result(*) parameters)find(name))

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void install(const char *mode)
{
    struct hf_python_options options = {.size = sizeof options, .numpy = 1};
    struct hf_python_state state = {.size = sizeof state};
    options.python = strcmp(mode, "full") == 0 ? HF_PYTHON_FULL : HF_PYTHON_ARENA;
    *(void **)&options.cpython = find("Py_Initialize");
    must(hf_python_install(&options, &state) == 0, "hf_python_install");
    must(state.python == (free_threaded ? HF_PYTHON_RAW : options.python), "the mode");
}

static int is(const void *ptr, enum hf_owner_kind kind)
{
    struct hf_owner owner = {.size = sizeof owner};
    return hf_owner_of(ptr, &owner) == 0 && owner.kind == kind;
}

#define OBJECTS (free_threaded ? HF_OWNER_ALLOCATOR : HF_OWNER_HEAP)

static const char work[] = "keep = [(str(i), {i: [i] * (i % 99)}) for i in range(50000)]\n"
                           "import json, threading\n"
                           "json.loads(json.dumps({'a': list(range(1000))}))\n";

static void three_lives(const char *mode)
{
    for (int life = 0; life < 3; life++) {
        if (life != 1)
            install(mode);
        CALL(void, "Py_InitializeEx", (int))(0);
        if (life != 1)
            install(mode);
        must(CALL(int, "PyRun_SimpleString", (const char *))("import json") == 0, "the work");
        void *large = CALL(void *, "PyObject_Malloc", (size_t))(5000);
        must(life == 1 || is(large, OBJECTS), "large objects");
        CALL(void, "PyObject_Free", (void *))(large);
        CALL(int, "Py_FinalizeEx", (void))();
    }
    must(hf_python_uninstall() == 0, "hf_python_uninstall");
    puts("fine");
}

int main(int argc, char **argv)
{
    void *raw[2], *small[2], *large[2];
    void *other = argc == 5 ? dlopen(argv[4], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (other != NULL)
        dlclose(other);
    if (argc - (other != NULL) != 4 || (library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) == NULL)
        return 2;
    const char *version = CALL(const char *, "Py_GetVersion", (void))();
    free_threaded = strstr(version, "free-threading") != NULL;
    if (strcmp(argv[2], "between") == 0) {
        three_lives(argv[3]);
        return 0;
    }
    int before = strcmp(argv[2], "before") == 0;
    if (before)
        install(argv[3]);
    for (int round = 0; round < 2; round++) {
        CALL(void, "Py_InitializeEx", (int))(0);
        /* CPython forgets its allocators when it is started again, from 3.12 on. Its mimalloc can
         * be known from the first call by an attached thread on. */
        if (!before || round > 0 || free_threaded)
            install(argv[3]);
        must(CALL(int, "PyRun_SimpleString", (const char *))(work) == 0, "the work");
        raw[round] = CALL(void *, "PyMem_RawMalloc", (size_t))(100);
        small[round] = CALL(void *, "PyObject_Malloc", (size_t))(100);
        large[round] = CALL(void *, "PyObject_Malloc", (size_t))(5000);
        must(is(raw[round], HF_OWNER_HEAP), "RAW is the heap's");
        must(is(large[round], OBJECTS), "large objects");
        must(is(small[round],
                strcmp(argv[3], "full") == 0 || free_threaded ? OBJECTS : HF_OWNER_PYMALLOC),
             "small objects");
        CALL(int, "Py_FinalizeEx", (void))();
        must(hf_usable_size(small[round]) >= 100, "a block that outlived the interpreter");
    }
    must(hf_python_uninstall() == 0, "hf_python_uninstall");
    for (int round = 0; round < 2; round++) {
        free(raw[round]);
        free(small[round]);
        free(large[round]);
    }
    puts("fine");
    return 0;
}
