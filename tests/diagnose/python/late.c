/* A program that loads libpython when it runs, for test_late.py: CPython's domains are watched from
 * then on, through its ends and new starts, and a block that one interpreter allocates and another
 * one with a GIL of its own frees is found. No header of CPython's, so that one program serves all
 * versions.
 *
 * late LIBPYTHON WORK, where WORK is "twice", "states" or "interpreters".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    void *(*mem_malloc)(size_t);
    void *(*mem_realloc)(void *, size_t);
    void (*mem_free)(void *);
    void *(*object_malloc)(size_t);
    void (*object_free)(void *);
    void *(*raw_malloc)(size_t);
    void (*raw_free)(void *);
    void (*initialize)(int);
    int (*finalize)(void);
    int (*run)(const char *, void *);
    void *(*detach)(void);
    void (*attach)(void *);
    void (*release)(int);
    int (*begin)(void);
} python;

static void *library;

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        (void)printf("no %s\n", name);
        exit(3);
    }
    return found;
}

static void run(const char *code)
{
    if (python.run(code, NULL) != 0)
        exit(4);
}

__attribute__((noinline)) static void give(void *ptr)
{
    python.object_free(ptr);
}

/* What is right: a thread that attaches for as long as it needs. */
static void *attached_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) {
        void *raw = python.raw_malloc(700);
        int state = python.begin();
        void *small = python.mem_malloc(40), *large = python.object_malloc(4000);
        python.mem_free(small);
        python.object_free(large);
        python.release(state);
        python.raw_free(raw);
    }
    return NULL;
}

static void in_thread(void *(*work)(void *))
{
    pthread_t thread;
    void *state = python.detach();
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        exit(5);
    pthread_join(thread, NULL);
    python.attach(state);
}

static void *wrong_thread(void *unused)
{
    (void)unused;
    give(python.object_malloc(4000));
    return NULL;
}

/* Each life of the interpreter leaves blocks that the next one frees. Since 3.12 CPython's domains
 * are as at first after a new start. */
static void twice(void)
{
    void *raw = NULL, *large = NULL;
    for (int life = 0; life < 2; life++) {
        python.initialize(0);
        run("x = [bytes(i) for i in range(2000)]; y = {str(i): i for i in range(5000)}");
        in_thread(attached_thread);
        python.raw_free(raw);
        python.object_free(large);
        raw = python.raw_malloc(100);
        large = python.object_malloc(3000);
        if (life == 0) {
            give(malloc(100));
            in_thread(wrong_thread);
        }
        (void)python.finalize();
    }
    python.raw_free(raw);
}

/* A thread may have several states, and swap them. */
static void states(void)
{
    void *(*interpreter)(void) = (void *(*)(void))find("PyInterpreterState_Get");
    void *(*new_state)(void *) = (void *(*)(void *))find("PyThreadState_New");
    void *(*swap)(void *) = (void *(*)(void *))find("PyThreadState_Swap");
    void (*clear)(void *) = (void (*)(void *))find("PyThreadState_Clear");
    void (*remove_state)(void *) = (void (*)(void *))find("PyThreadState_Delete");
    python.initialize(0);
    void *second = new_state(interpreter());
    for (int i = 0; i < 3; i++) {
        void *first = swap(second);
        give(python.object_malloc(40));
        python.mem_free(python.mem_malloc(4000));
        run("x = [bytes(i) for i in range(2000)]");
        (void)swap(first);
        give(python.object_malloc(40));
    }
    clear(second);
    remove_state(second);
    (void)python.finalize();
}

/* PyInterpreterConfig, PyStatus: the same in 3.12 and 3.13. */
struct config {
    int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
    int check_multi_interp_extensions, gil;
};
struct status {
    int type;
    const char *function, *message;
    int exit_status;
};

__attribute__((noinline)) static void interpreters(void)
{
    struct status (*new_interpreter)(void **, const struct config *) =
        (struct status(*)(void **, const struct config *))find("Py_NewInterpreterFromConfig");
    void (*end_interpreter)(void *) = (void (*)(void *))find("Py_EndInterpreter");
    void *(*swap)(void *) = (void *(*)(void *))find("PyThreadState_Swap");
    void *(*current)(void) = (void *(*)(void))find("PyThreadState_Get");
    const struct config own = {.allow_threads = 1, .check_multi_interp_extensions = 1, .gil = 2};
    python.initialize(0);
    void *first = current(), *second = NULL;
    void *small = python.object_malloc(40), *resized = python.mem_malloc(40);
    void *large = python.object_malloc(4000), *raw = python.raw_malloc(40);
    memset(resized, 7, 40);
    if (new_interpreter(&second, &own).type != 0)
        exit(6);
    run("x = [bytes(i) for i in range(2000)]; y = {str(i): i for i in range(5000)}");
    void *kept = python.object_malloc(40);
    give(small);
    (void)python.mem_realloc(resized, 80);
    give(large); /* has no interpreter */
    python.raw_free(raw);
    give(kept);
    end_interpreter(second);
    (void)swap(first);
    run("x = [bytes(i) for i in range(2000)]");
    (void)python.finalize();
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        (void)printf("%s\n", dlerror());
        return 77;
    }
#define FIND(member, name) *(void **)&python.member = find(name)
    FIND(mem_malloc, "PyMem_Malloc");
    FIND(mem_realloc, "PyMem_Realloc");
    FIND(mem_free, "PyMem_Free");
    FIND(object_malloc, "PyObject_Malloc");
    FIND(object_free, "PyObject_Free");
    FIND(raw_malloc, "PyMem_RawMalloc");
    FIND(raw_free, "PyMem_RawFree");
    FIND(initialize, "Py_InitializeEx");
    FIND(finalize, "Py_FinalizeEx");
    FIND(run, "PyRun_SimpleStringFlags");
    FIND(detach, "PyEval_SaveThread");
    FIND(attach, "PyEval_RestoreThread");
    FIND(begin, "PyGILState_Ensure");
    FIND(release, "PyGILState_Release");
    if (strcmp(words[2], "twice") == 0)
        twice();
    else if (strcmp(words[2], "states") == 0)
        states();
    else
        interpreters();
    (void)printf("done\n");
    return 0;
}
