/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. Every function runs Python code, so no lock is held here.
 *
 * `threading` is imported by the owner thread, because CPython takes the thread that imports it for
 * the interpreter's main thread, whose end it waits for in Py_EndInterpreter().
 */
#include "satellites/interpreters/inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/alloc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_INPUT 257 /* Py_file_input */

/* ---- errors ---- */

static void release(const struct hf_cpython_interpreters *py, struct hf_py_object *object)
{
    if (object != NULL)
        py->cpython->release(object);
}

static void append_text(const struct hf_cpython_interpreters *py, struct hf_py_object *object,
                        char *out, size_t size)
{
    const size_t used = strlen(out);
    struct hf_py_object *text = object != NULL ? py->string_of(object) : NULL;
    const char *utf8 = text != NULL ? py->utf8(text, NULL) : NULL;
    if (utf8 == NULL)
        py->cpython->clear_error();
    snprintf(out + used, size - used, "%s", utf8 != NULL ? utf8 : "?");
    release(py, text);
}

/* Clears the exception that is set and writes its type and message. */
static void take_error(const struct hf_cpython_interpreters *py, char *why, size_t size)
{
    struct hf_py_object *type = NULL, *value = NULL, *traceback = NULL;
    py->error_fetch(&type, &value, &traceback);
    py->error_normalize(&type, &value, &traceback);
    if (why != NULL && size > 2) {
        why[0] = '\0';
        struct hf_py_object *name = type != NULL ? py->cpython->attribute(type, "__name__") : NULL;
        append_text(py, name, why, size);
        release(py, name);
        const size_t used = strlen(why);
        snprintf(why + used, size - used, ": ");
        append_text(py, value, why, size);
    }
    release(py, type);
    release(py, value);
    release(py, traceback);
}

/* ---- paths ---- */

char **hf_inside_paths(const struct hf_cpython_interpreters *py)
{
    struct hf_py_object *path = py->system_object("path");
    ssize_t count = path != NULL ? py->sequence_size(path) : 0;
    size_t capacity = ((size_t)(count > 0 ? count : 0) + 1) * sizeof(char *), used = capacity;
    char **out = NULL;
    /* Once to measure, once to copy; only this thread is attached, but entries may run code. */
    for (int turn = 0; turn < 2; turn++) {
        size_t listed = 0;
        if (turn == 1 && (out = hf_calloc(1, used)) == NULL)
            return NULL;
        size_t at = capacity;
        for (ssize_t i = 0; i < count; i++) {
            struct hf_py_object *entry = py->sequence_item(path, i);
            struct hf_py_object *bytes = entry != NULL ? py->text_in_file_system(entry) : NULL;
            char *text;
            if (bytes != NULL && py->bytes_read(bytes, &text, NULL) == 0) {
                const size_t length = strlen(text) + 1;
                if (turn == 1 && at + length <= used) {
                    out[listed] = (char *)out + at;
                    memcpy(out[listed++], text, length);
                }
                at += length;
            } else
                py->cpython->clear_error();
            release(py, bytes);
            release(py, entry);
        }
        used = at > used ? at : used;
    }
    return out;
}

static bool set_paths(const struct hf_cpython_interpreters *py, const char *const *paths)
{
    struct hf_py_object *sys = py->import("sys"), *list = py->list_new(0);
    bool done = sys != NULL && list != NULL;
    for (; done && *paths != NULL; paths++) {
        struct hf_py_object *path = py->file_system_text(*paths);
        done = path != NULL && py->list_append(list, path) == 0;
        release(py, path);
    }
    done = done && py->set_attribute(sys, "path", list) == 0;
    release(py, list);
    release(py, sys);
    return done;
}

/* The directory that holds the package `homefree`, if libhomefree lies in it as in a wheel. */
static bool package_directory(char out[static PATH_MAX])
{
    Dl_info info;
    char package[PATH_MAX + sizeof "/homefree/__init__.py"];
    if (dladdr((const void *)hf_inside_paths, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, out) == NULL)
        return false;
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(out, '/');
        if (slash == NULL || slash == out)
            return false;
        *slash = '\0';
    }
    snprintf(package, sizeof package, "%s/homefree/__init__.py", out);
    return access(package, R_OK) == 0;
}

/* ---- running code ---- */

static bool run(const struct hf_cpython_interpreters *py, const char *source, const char *name,
                const char *in)
{
    struct hf_py_object *module = py->add_module(in);
    struct hf_py_object *names = module != NULL ? py->module_dict(module) : NULL;
    struct hf_py_object *code = names != NULL ? py->compile(source, name, FILE_INPUT) : NULL;
    struct hf_py_object *result = code != NULL ? py->evaluate(code, names, names) : NULL;
    release(py, code);
    release(py, result);
    return result != NULL;
}

static bool call_in(const struct hf_cpython_interpreters *py, const char *module,
                    const char *function)
{
    struct hf_py_object *imported = py->import(module);
    struct hf_py_object *called =
        imported != NULL ? py->cpython->attribute(imported, function) : NULL;
    struct hf_py_object *result = called != NULL ? py->call(called, NULL) : NULL;
    release(py, imported);
    release(py, called);
    release(py, result);
    return result != NULL;
}

/* Imports the package and lets it prepare the interpreter. That there is none is no error. */
static bool prepare_by_package(const struct hf_cpython_interpreters *py)
{
    char directory[PATH_MAX];
    struct hf_py_object *spec = NULL;
    struct hf_py_object *name = py->cpython->string("homefree.interpreters._inside");
    struct hf_py_object *utilities = py->import("importlib.util");
    struct hf_py_object *path = py->system_object("path");
    struct hf_py_object *text =
        package_directory(directory) ? py->file_system_text(directory) : NULL;
    if (path != NULL && text != NULL)
        (void)py->list_append(path, text);
    release(py, text);
    struct hf_py_object *find =
        utilities != NULL ? py->cpython->attribute(utilities, "find_spec") : NULL;
    if (find != NULL && name != NULL)
        spec = py->call_with(find, name, NULL);
    const bool found = spec != NULL && spec != py->none;
    py->cpython->clear_error(); /* the package is not there */
    release(py, spec);
    release(py, find);
    release(py, utilities);
    release(py, name);
    return !found || call_in(py, "homefree.interpreters._inside", "set_up");
}

int hf_inside_set_up(const struct hf_cpython_interpreters *py, const char *const *paths,
                     bool with_package, const char *set_up, char *why, size_t size)
{
    struct hf_py_object *threading = py->import("threading");
    const bool done = threading != NULL && (paths == NULL || set_paths(py, paths)) &&
                      (!with_package || prepare_by_package(py)) &&
                      (set_up == NULL || run(py, set_up, "<set_up>", "__main__"));
    if (!done)
        take_error(py, why, size);
    release(py, threading);
    return done ? 0 : -EPROTO;
}

void hf_inside_finish(const struct hf_cpython_interpreters *py)
{
    /* What threading._shutdown() does, which Py_EndInterpreter() calls and which 3.12 cannot run
     * twice: thread pools let their threads go, and the threads are waited for. Threads that Python
     * has not started are dummies, which nobody can wait for. */
    static const char wait[] =
        "import threading\n"
        "calls = getattr(threading, '_threading_atexits', [])\n"
        "while calls:\n"
        "    calls.pop()()\n"
        "while True:\n"
        "    left = [thread for thread in threading.enumerate()\n"
        "            if thread is not threading.main_thread() and not thread.daemon\n"
        "            and not isinstance(thread, threading._DummyThread)]\n"
        "    if not left:\n"
        "        break\n"
        "    left[0].join()\n";
    /* From 3.13 on this thread is no main thread, so what has just run may have made a dummy of it.
     * It removes itself with the thread state, when `threading` has no lock any more. */
    static const char forget[] = "vars(getattr(threading, '_thread_local_info', threading.Event())"
                                 ").pop('_track_dummy_thread_ref', None)\n";
    static const char module[] = "_homefree_finish";
    if (!run(py, wait, "<homefree>", module))
        py->cpython->clear_error();
    if (!call_in(py, "atexit", "_run_exitfuncs"))
        py->cpython->clear_error();
    if (!run(py, forget, "<homefree>", module))
        py->cpython->clear_error();
}

/* sys._current_frames() would tell all threads, but those of all interpreters: CPython 3.12 and
 * 3.13 make frame objects for code of the others, in this interpreter's memory. */
static void interrupt_known(const struct hf_cpython_interpreters *py,
                            struct hf_py_object *exception, unsigned long except)
{
    struct hf_py_object *threading = py->import("threading");
    struct hf_py_object *enumerate =
        threading != NULL ? py->cpython->attribute(threading, "enumerate") : NULL;
    struct hf_py_object *threads = enumerate != NULL ? py->call(enumerate, NULL) : NULL;
    const ssize_t count = threads != NULL ? py->sequence_size(threads) : 0;
    for (ssize_t i = 0; i < count; i++) {
        struct hf_py_object *thread = py->sequence_item(threads, i);
        struct hf_py_object *number =
            thread != NULL ? py->cpython->attribute(thread, "ident") : NULL;
        const unsigned long id =
            number != NULL && number != py->none ? py->to_unsigned_long(number) : except;
        if (id != except && id != (unsigned long)pthread_self())
            (void)py->raise_in(id, exception);
        release(py, number);
        release(py, thread);
    }
    release(py, threads);
    release(py, enumerate);
    release(py, threading);
}

struct hf_py_object *hf_inside_system_exit(const struct hf_cpython_interpreters *py)
{
    struct hf_py_object *builtins = py->import("builtins");
    struct hf_py_object *exception =
        builtins != NULL ? py->cpython->attribute(builtins, "SystemExit") : NULL;
    if (exception == NULL)
        py->cpython->clear_error();
    release(py, builtins);
    return exception;
}

void hf_inside_interrupt(const struct hf_cpython_interpreters *py, struct hf_py_object *exception,
                         const unsigned long *threads, size_t count, bool all, unsigned long except)
{
    for (size_t i = 0; i < count; i++)
        if (threads[i] != except)
            (void)py->raise_in(threads[i], exception);
    if (all)
        interrupt_known(py, exception, except);
    py->cpython->clear_error();
}
