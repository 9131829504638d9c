/*
 * The process that the model (model.py) drives: it does what it reads from its standard input, a
 * command a line, and answers each with one line. It is not linked with homefree, which comes late,
 * and it has CPython only while a command wants it.
 *
 * usage: world LIBHOMEFREE LIBPYTHON|- SIDE=PATH...
 *
 * The first process only forks: `begin` makes a child that obeys until `quit`. A forked child takes
 * over from its parent until `end`, so that what a fork leaves to either is compared as well. A
 * process that dies is named by its parent, with what it wrote to stderr: "died SIGSEGV ...".
 *
 * Each block is filled with a pattern of its own. Worker threads do what they are told, one at a
 * time: the model is about order and owners, the storms are about races.
 */
#include "../support/signal_name.h"
#include "side.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDES = 16, BLOCKS = 256, THREADS = 4, SECONDS = 30, ALREADY_TOLD = 99 };

static const char *homefree_path, *python_path;
static int errors; /* what was written to stderr */

static _Noreturn void fail(const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s\n", what, detail);
    _exit(1);
}

/* Answers a command; "%s" and its kind. */
__attribute__((format(printf, 1, 2))) static void answer(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static const char *errors_text(void)
{
    static char text[2000];
    ssize_t length = pread(errors, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    return text;
}

/* Waits for a child, and tells how it ended. Result: whether it ended well. */
static bool ended_well(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail("fork", "no child");
    if (WIFSIGNALED(status))
        answer("died SIG%s %s", signal_name(WTERMSIG(status)), errors_text());
    else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != ALREADY_TOLD)
        answer("died %d %s", WEXITSTATUS(status), errors_text());
    return status == 0;
}

/* ---- homefree ---- */

static int (*owner_of)(const void *, struct hf_owner *);
static bool (*owns)(const void *);
static size_t (*usable_size)(const void *);
static struct hf_watch *watch;

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    if (found == NULL)
        fail(name, dlerror());
    return found;
}

/* Any loaded side may have brought it. */
static void *homefree(bool load)
{
    void *handle = dlopen(homefree_path, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (handle == NULL) {
        if (load)
            fail(homefree_path, dlerror());
        return NULL;
    }
    if (owns == NULL) {
        owner_of = (int (*)(const void *, struct hf_owner *))symbol(handle, "hf_owner_of");
        owns = (bool (*)(const void *))symbol(handle, "hf_owns");
        usable_size = (size_t(*)(const void *))symbol(handle, "hf_usable_size");
    }
    return handle;
}

#define HOMEFREE(name) ((__typeof__(&(name)))symbol(homefree(false), #name))

static void watch_heap(void)
{
    if (HOMEFREE(hf_watch_begin)(&watch, 0) != 0)
        fail("hf_watch_begin()", "failed");
}

/* The interpreter's own blocks are nobody's business. */
static void count_left(const struct hf_left *left, void *context)
{
    unsigned long *count = context;
    if (strstr(left->allocated_by, "python") == NULL)
        *count += left->count;
}

static unsigned long blocks_left(void)
{
    unsigned long count = 0;
    if (watch != NULL && HOMEFREE(hf_watch_left)(watch, count_left, &count) != 0)
        fail("hf_watch_left()", "failed");
    return count;
}

/* ---- CPython ---- */

static void *python;
static void *sub, *main_state;

#define PYTHON(result, name, parameters) ((result(*) parameters)symbol(python, #name))

static void install(const char *mode)
{
    struct hf_python_options options = {
        .size = sizeof options,
        .python = strcmp(mode, "full") == 0 ? HF_PYTHON_FULL : HF_PYTHON_ARENA,
    };
    *(void **)&options.cpython = symbol(python, "Py_Initialize");
    if (HOMEFREE(hf_python_install)(&options, NULL) != 0)
        fail("hf_python_install()", "failed");
}

static void run_python(void)
{
    static const char code[] =
        "import gc\nkeep = [(str(i), {i: [i] * (i % 9)}) for i in range(300)]\ngc.collect()\n";
    if (PYTHON(int, PyRun_SimpleString, (const char *))(code) != 0)
        fail("python", "failed");
}

static void start_python(const char *mode)
{
    if (python == NULL && (python = dlopen(python_path, RTLD_NOW | RTLD_GLOBAL)) == NULL)
        fail("python", dlerror());
    const bool wanted = strcmp(mode, "off") != 0;
    if (wanted)
        install(mode);
    PYTHON(void, Py_InitializeEx, (int))(0);
    if (wanted) /* CPython forgets its allocators when it is started again, from 3.12 on */
        install(mode);
    run_python();
}

static void start_sub(void)
{
    main_state = PYTHON(void *, PyThreadState_Get, (void))();
    sub = PYTHON(void *, Py_NewInterpreter, (void))();
    if (sub == NULL)
        fail("python", "no subinterpreter");
    run_python();
    PYTHON(void *, PyThreadState_Swap, (void *))(main_state);
}

static void end_sub(void)
{
    PYTHON(void *, PyThreadState_Swap, (void *))(sub);
    PYTHON(void, Py_EndInterpreter, (void *))(sub);
    PYTHON(void *, PyThreadState_Swap, (void *))(main_state);
}

/* ---- sides ---- */

static struct {
    const char *name, *path;
    void *handle;
    const struct model_functions *functions;
} sides[SIDES];
static int side_count;

static int side_of(const char *name)
{
    for (int i = 0; i < side_count; i++)
        if (strcmp(sides[i].name, name) == 0)
            return i;
    fail(name, "no such side");
}

static void *host_acquire(enum model_kind kind, size_t size)
{
    char *text;
    switch (kind) {
    case MODEL_MALLOC:
        return malloc(size);
    case MODEL_CALLOC:
        return calloc(1, size);
    case MODEL_ALIGNED:
        return memalign(MODEL_ALIGNMENT, size);
    case MODEL_STRDUP:
        return asprintf(&text, "%*s", (int)size - 1, "") >= 0 ? text : NULL;
    default:
        return NULL;
    }
}

static void host_release(enum model_kind kind, void *block)
{
    (void)kind;
    free(block);
}

static size_t host_measure(void *block)
{
    return malloc_usable_size(block);
}

static const struct model_functions host_side = {host_acquire, host_release, realloc, host_measure};

/* The functions of homefree by their own names. */
static void *heap_acquire(enum model_kind kind, size_t size)
{
    switch (kind) {
    case MODEL_MALLOC:
        return HOMEFREE(hf_malloc)(size);
    case MODEL_CALLOC:
        return HOMEFREE(hf_calloc)(1, size);
    default:
        return HOMEFREE(hf_memalign)(MODEL_ALIGNMENT, size);
    }
}

static void heap_release(enum model_kind kind, void *block)
{
    (void)kind;
    HOMEFREE(hf_free)(block);
}

static void *heap_resize(void *block, size_t size)
{
    return HOMEFREE(hf_realloc)(block, size);
}

static size_t heap_measure(void *block)
{
    return usable_size(block);
}

static const struct model_functions heap_side = {heap_acquire, heap_release, heap_resize,
                                                 heap_measure};

/* libstdc++'s operators, as anybody reaches them. */
static void *runtime_acquire(enum model_kind kind, size_t size)
{
    const char *name = kind == MODEL_NEW ? "_Znwm" : "_Znam";
    return ((void *(*)(size_t))symbol(sides[side_of("runtime")].handle, name))(size);
}

static void runtime_release(enum model_kind kind, void *block)
{
    const char *name = kind == MODEL_NEW ? "_ZdlPv" : "_ZdaPv";
    ((void (*)(void *))symbol(sides[side_of("runtime")].handle, name))(block);
}

static const struct model_functions runtime_side = {runtime_acquire, runtime_release, NULL, NULL};

static void *raw_acquire(enum model_kind kind, size_t size)
{
    return kind == MODEL_MALLOC ? PYTHON(void *, PyMem_RawMalloc, (size_t))(size)
                                : PYTHON(void *, PyMem_RawCalloc, (size_t, size_t))(1, size);
}

static void raw_release(enum model_kind kind, void *block)
{
    (void)kind;
    PYTHON(void, PyMem_RawFree, (void *))(block);
}

static void *raw_resize(void *block, size_t size)
{
    return PYTHON(void *, PyMem_RawRealloc, (void *, size_t))(block, size);
}

static const struct model_functions raw_side = {raw_acquire, raw_release, raw_resize, NULL};

static void *object_acquire(enum model_kind kind, size_t size)
{
    return kind == MODEL_MALLOC ? PYTHON(void *, PyObject_Malloc, (size_t))(size)
                                : PYTHON(void *, PyObject_Calloc, (size_t, size_t))(1, size);
}

static void object_release(enum model_kind kind, void *block)
{
    (void)kind;
    PYTHON(void, PyObject_Free, (void *))(block);
}

static void *object_resize(void *block, size_t size)
{
    return PYTHON(void *, PyObject_Realloc, (void *, size_t))(block, size);
}

static const struct model_functions object_side = {object_acquire, object_release, object_resize,
                                                   NULL};

static void load_side(const char *name, const char *flag)
{
    const int side = side_of(name);
    int mode = RTLD_NOW | RTLD_LOCAL;
    if (strcmp(flag, "lazy") == 0)
        mode = RTLD_LAZY | RTLD_LOCAL;
    else if (strcmp(flag, "global") == 0)
        mode = RTLD_NOW | RTLD_GLOBAL;
    sides[side].handle = dlopen(sides[side].path, mode);
    if (sides[side].handle == NULL)
        fail(name, dlerror());
    if (sides[side].functions != &runtime_side)
        sides[side].functions =
            ((const struct model_functions *(*)(void))symbol(sides[side].handle, "model_side"))();
    homefree(false);
}

/* Result: whether the object is gone. */
static bool unload_side(const char *name)
{
    const int side = side_of(name);
    dlclose(sides[side].handle);
    sides[side].handle = NULL;
    void *again = dlopen(sides[side].path, RTLD_NOW | RTLD_NOLOAD);
    if (again != NULL)
        dlclose(again);
    return again == NULL;
}

/* ---- blocks ---- */

static struct {
    unsigned char *at;
    size_t size;
    unsigned seed;
} blocks[BLOCKS];

static unsigned char pattern(unsigned seed, size_t position)
{
    return (unsigned char)(position * 31 + (position >> 8) + seed);
}

static void fill(int slot, unsigned char *at, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        at[i] = pattern(seed, i);
    blocks[slot].at = at;
    blocks[slot].size = size;
    blocks[slot].seed = seed;
}

static bool intact(int slot, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (blocks[slot].at[i] != pattern(blocks[slot].seed, i))
            return false;
    return true;
}

struct operation {
    char what; /* a, r or f */
    const struct model_functions *side;
    int kind, slot;
    size_t size;
    const char *result;
};

static const char *where(const void *block)
{
    return owns != NULL && owns(block) ? "inside" : "outside";
}

static const char *acquire(const struct operation *operation)
{
    static unsigned seed;
    unsigned char *at = operation->side->acquire((enum model_kind)operation->kind, operation->size);
    if (at == NULL)
        return "null";
    for (size_t i = 0; operation->kind == MODEL_CALLOC && i < operation->size; i++)
        if (at[i] != 0)
            return "not cleared";
    if (operation->kind == MODEL_ALIGNED && (uintptr_t)at % MODEL_ALIGNMENT != 0)
        return "not aligned";
    fill(operation->slot, at, operation->size, seed += 7);
    return where(at);
}

static const char *resize(const struct operation *operation)
{
    const int slot = operation->slot;
    const size_t size = operation->size;
    unsigned char *at = operation->side->resize(blocks[slot].at, size);
    if (at == NULL)
        return "null";
    blocks[slot].at = at;
    if (!intact(slot, size < blocks[slot].size ? size : blocks[slot].size))
        return "contents lost";
    fill(slot, at, size, blocks[slot].seed);
    return where(at);
}

static void carry_out(struct operation *operation)
{
    if (operation->what == 'a') {
        operation->result = acquire(operation);
    } else if (!intact(operation->slot, blocks[operation->slot].size)) {
        operation->result = "damaged";
    } else if (operation->what == 'r') {
        operation->result = resize(operation);
    } else {
        operation->side->release((enum model_kind)operation->kind, blocks[operation->slot].at);
        blocks[operation->slot].at = NULL;
        operation->result = "freed";
    }
}

/* Owner, size and contents of every block. */
static void look(void)
{
    printf("ok");
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].at == NULL)
            continue;
        struct hf_owner owner = {.size = sizeof owner};
        if (owner_of != NULL && owner_of(blocks[i].at, &owner) != 0)
            fail("hf_owner_of()", "failed");
        printf(" %d:%d:%s:%s:%zu:%s:%s", i, (int)owner.kind,
               owner.allocator != NULL ? owner.allocator : "-", where(blocks[i].at),
               owner.kind != HF_OWNER_UNKNOWN ? usable_size(blocks[i].at) : 0,
               owner.block == NULL || owner.block == blocks[i].at ? "start" : "elsewhere",
               intact(i, blocks[i].size) ? "intact" : "damaged");
    }
    answer("%s", "");
}

/* ---- threads: number 0 is the main thread ---- */

static struct worker {
    pthread_t thread;
    sem_t start, done;
    struct operation *operation; /* NULL: the thread ends */
} workers[THREADS];

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (;;) {
        sem_wait(&worker->start);
        if (worker->operation == NULL)
            return NULL;
        carry_out(worker->operation);
        sem_post(&worker->done);
    }
}

static void start_thread(int number)
{
    sem_init(&workers[number].start, 0, 0);
    sem_init(&workers[number].done, 0, 0);
    if (pthread_create(&workers[number].thread, NULL, work, &workers[number]) != 0)
        fail("thread", "none");
}

static void end_thread(int number)
{
    workers[number].operation = NULL;
    sem_post(&workers[number].start);
    pthread_join(workers[number].thread, NULL);
}

static void operate(int thread, struct operation *operation)
{
    if (thread == 0) {
        carry_out(operation);
    } else {
        workers[thread].operation = operation;
        sem_post(&workers[thread].start);
        sem_wait(&workers[thread].done);
    }
    answer("ok %s", operation->result);
}

/* ---- processes ---- */

/* Result: in the child. The parent comes back when the child has ended. */
static void fork_here(bool with_python)
{
    fflush(NULL);
    if (with_python)
        PYTHON(void, PyOS_BeforeFork, (void))();
    pid_t child = fork();
    if (child == 0) {
        if (with_python)
            PYTHON(void, PyOS_AfterFork_Child, (void))();
        alarm(SECONDS);
        answer("ok");
        return;
    }
    if (with_python)
        PYTHON(void, PyOS_AfterFork_Parent, (void))();
    if (!ended_well(child))
        _exit(ALREADY_TOLD);
    answer("ok");
}

static void obey(const char *command, char *line)
{
    char a[300] = "", b[32] = "";
    int thread, kind, slot;
    size_t size;
    if (sscanf(line, "set %299[^=]=%31s", a, b) == 2) {
        setenv(a, b, 1);
        answer("ok");
    } else if (sscanf(line, "acquire %d %31s %d %d %zu", &thread, a, &kind, &slot, &size) == 5) {
        operate(thread,
                &(struct operation){'a', sides[side_of(a)].functions, kind, slot, size, ""});
    } else if (sscanf(line, "release %d %31s %d %d", &thread, a, &kind, &slot) == 4) {
        operate(thread, &(struct operation){'f', sides[side_of(a)].functions, kind, slot, 0, ""});
    } else if (sscanf(line, "resize %d %31s %d %zu", &thread, a, &slot, &size) == 4) {
        operate(thread, &(struct operation){'r', sides[side_of(a)].functions, 0, slot, size, ""});
    } else if (sscanf(line, "measure %31s %d", a, &slot) == 2) {
        answer("ok %zu", sides[side_of(a)].functions->measure(blocks[slot].at));
    } else if (sscanf(line, "load %31s %31s", a, b) == 2) {
        load_side(a, b);
        answer("ok");
    } else if (sscanf(line, "unload %31s", a) == 1) {
        answer("ok %s", unload_side(a) ? "gone" : "stays");
    } else if (sscanf(line, "adopt %31s", a) == 1) {
        answer("ok %d", HOMEFREE(hf_adopt)(sides[side_of(a)].handle));
    } else if (sscanf(line, "thread %d %31s", &thread, a) == 2) {
        (strcmp(a, "start") == 0 ? start_thread : end_thread)(thread);
        answer("ok");
    } else if (sscanf(line, "python start %31s", a) == 1) {
        start_python(a);
        answer("ok");
    } else if (strcmp(command, "python work") == 0) {
        run_python();
        answer("ok");
    } else if (strcmp(command, "python end") == 0) {
        answer("ok %d", PYTHON(int, Py_FinalizeEx, (void))());
    } else if (strcmp(command, "sub start") == 0) {
        start_sub();
        answer("ok");
    } else if (strcmp(command, "sub end") == 0) {
        end_sub();
        answer("ok");
    } else if (strcmp(command, "homefree") == 0) {
        homefree(true);
        answer("ok");
    } else if (strcmp(command, "watch") == 0) {
        watch_heap();
        answer("ok");
    } else if (strcmp(command, "left") == 0) {
        answer("ok %lu", blocks_left());
    } else if (strcmp(command, "route") == 0) {
        answer("ok %d", HOMEFREE(hf_route)());
    } else if (strcmp(command, "look") == 0) {
        look();
    } else if (strcmp(command, "fork") == 0 || strcmp(command, "fork python") == 0) {
        fork_here(strcmp(command, "fork") != 0);
    } else if (strcmp(command, "end") == 0) {
        exit(0);
    } else {
        fail(line, "not understood");
    }
}

static void obey_all(void)
{
    char line[400];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        alarm(SECONDS);
        obey(line, line);
    }
}

int main(int count, char **arguments)
{
    setvbuf(stdin, NULL, _IONBF, 0); /* a forked child must not have read for its parent */
    homefree_path = arguments[1];
    python_path = arguments[2];
    for (int i = 3; i < count && side_count < SIDES - 5; i++, side_count++) {
        sides[side_count].name = strtok(arguments[i], "=");
        sides[side_count].path = strtok(NULL, "=");
        if (strcmp(sides[side_count].name, "runtime") == 0)
            sides[side_count].functions = &runtime_side;
    }
    const struct model_functions *own[] = {&host_side, &heap_side, &raw_side, &object_side};
    const char *names[] = {"host", "heap", "raw", "object"};
    for (int i = 0; i < 4; i++, side_count++) {
        sides[side_count].name = names[i];
        sides[side_count].functions = own[i];
    }
    /* Before a side that is linked with an allocator: libstdc++'s own calls would be bound to that.
     */
    if (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) == NULL)
        return 1;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    errors = memfd_create("errors", 0);
    char line[400];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (ftruncate(errors, 0) != 0 || lseek(errors, 0, SEEK_SET) != 0)
            return 1;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            dup2(errors, 2);
            homefree(false); /* it may be preloaded */
            answer("ok");
            obey_all();
            _exit(1);
        }
        if (ended_well(child))
            answer("ok %s", errors_text());
    }
    return 0;
}
