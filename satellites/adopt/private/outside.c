/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See outside.h. Owns what is known of each copy, in a list that only grows, under `lock`; and
 * each thread's objects to destroy, which the thread alone looks at.
 *
 * The functions below take the places of libc's, libstdc++'s and CPython's in the copy's slots. Who
 * calls is known from the address that a function belongs to which is handed over, or else from the
 * return address; a caller that is not known makes every copy uncertain.
 */
#include "satellites/adopt/private/outside.h"

#include "alloc/base/fork_lock.h"
#include "satellites/adopt/adopt_core.h"
#include "satellites/adopt/private/watched_slots.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <pthread.h>
#include <threads.h>

enum { PATIENCE_MS = 100, KEYS = 32 };

struct hf_outside {
    struct hf_outside *next;
    uintptr_t start, end; /* the copy's addresses */
    unsigned threads;     /* that it has started, and that run */
    unsigned objects;     /* that threads will destroy */
    unsigned running;     /* calls of CPython's */
    struct call *calls;
    struct ending *endings;
    pthread_key_t keys[KEYS];
    unsigned keys_count;
    bool is_uncertain;
};

/* CPython's Py_tss_t. */
struct python_key {
    int is_made;
    pthread_key_t key;
};

/* std::thread::_State, whose functions are: two destructors, the second of which also frees, and
 * _M_run(). */
struct state {
    void (*const *functions)(struct state *state);
};

/* What the copies would call of CPython's and libstdc++'s, which are not always in the global
 * scope. Written before the copy's slot is. */
static struct {
    int (*key_create)(struct python_key *key);
    void (*key_delete)(struct python_key *key);
    int (*add_call)(int (*function)(void *argument), void *argument);
    int (*at_exit)(void (*function)(void));
    unsigned long (*start_python)(void (*run)(void *argument), void *argument);
    void (*start_thread)(void *thread, struct state **state, void (*depends)(void));
} others;

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct hf_outside *all;

static struct hf_outside *find(uintptr_t address)
{
    struct hf_outside *at = all;
    while (at != NULL && address - at->start >= at->end - at->start)
        at = at->next;
    return at;
}

/* Under the lock. NULL: every copy is uncertain from now on. */
static struct hf_outside *whose(const void *handed, const void *caller)
{
    struct hf_outside *found = find((uintptr_t)handed);
    if (found == NULL)
        found = find((uintptr_t)caller);
    for (struct hf_outside *at = all; at != NULL && found == NULL; at = at->next)
        at->is_uncertain = true;
    return found;
}

/* ---- keys ---- */

static void add_key(pthread_key_t key, const void *handed, const void *caller)
{
    pthread_mutex_lock(&lock);
    struct hf_outside *found = whose(handed, caller);
    if (found != NULL && found->keys_count < KEYS)
        found->keys[found->keys_count++] = key;
    else if (found != NULL)
        found->is_uncertain = true;
    pthread_mutex_unlock(&lock);
}

static void remove_key(pthread_key_t key)
{
    pthread_mutex_lock(&lock);
    for (struct hf_outside *at = all; at != NULL; at = at->next)
        for (unsigned i = 0; i < at->keys_count; i++)
            if (at->keys[i] == key)
                at->keys[i--] = at->keys[--at->keys_count];
    pthread_mutex_unlock(&lock);
}

static int key_create(pthread_key_t *key, void (*destroy)(void *))
{
    const int error = pthread_key_create(key, destroy);
    if (error == 0)
        add_key(*key, (const void *)destroy, __builtin_return_address(0));
    return error;
}

static int key_delete(pthread_key_t key)
{
    remove_key(key);
    return pthread_key_delete(key);
}

static int c_key_create(tss_t *key, tss_dtor_t destroy)
{
    const int error = tss_create(key, destroy);
    if (error == thrd_success)
        add_key(*key, (const void *)destroy, __builtin_return_address(0));
    return error;
}

static void c_key_delete(tss_t key)
{
    remove_key(key);
    tss_delete(key);
}

static int python_key_create(struct python_key *key)
{
    const bool was_made = key->is_made != 0;
    const int error = others.key_create(key);
    if (error == 0 && !was_made)
        add_key(key->key, key, __builtin_return_address(0));
    return error;
}

static void python_key_delete(struct python_key *key)
{
    if (key->is_made != 0)
        remove_key(key->key);
    others.key_delete(key);
}

void hf_outside_drop_keys(struct hf_outside *outside)
{
    pthread_mutex_lock(&lock);
    while (outside->keys_count > 0)
        (void)pthread_key_delete(outside->keys[--outside->keys_count]);
    pthread_mutex_unlock(&lock);
}

/* ---- thread-local objects ---- */

struct object {
    struct object *next;            /* of the thread's, the newest first */
    void (*destroy)(void *pointer); /* NULL: it is destroyed */
    void *pointer;
    struct hf_outside *outside; /* NULL: not known */
};

static _Thread_local struct object *own;

extern void *__dso_handle;   /* NOLINT(bugprone-reserved-identifier) */
int __cxa_thread_atexit_impl(/* NOLINT(bugprone-reserved-identifier) */
                             void (*destroy)(void *pointer), void *pointer, void *object);

static void destroy(struct object *object)
{
    void (*function)(void *pointer) = object->destroy;
    object->destroy = NULL;
    if (function == NULL)
        return;
    function(object->pointer);
    if (object->outside == NULL)
        return;
    pthread_mutex_lock(&lock);
    object->outside->objects--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void thread_ends(void *argument)
{
    struct object *object = argument;
    destroy(object);
    struct object **link = &own;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    hf_free(object);
}

static int at_thread_exit(void (*function)(void *pointer), void *pointer, void *handle)
{
    struct object *object = hf_malloc(sizeof *object);
    if (object == NULL)
        return -1;
    pthread_mutex_lock(&lock);
    *object = (struct object){own, function, pointer, whose(handle, (const void *)function)};
    if (object->outside != NULL)
        object->outside->objects++;
    pthread_mutex_unlock(&lock);
    own = object;
    return __cxa_thread_atexit_impl(thread_ends, object, &__dso_handle);
}

bool hf_outside_has_objects(const struct hf_outside *outside)
{
    const struct object *at = own;
    while (at != NULL && (at->outside != outside || at->destroy == NULL))
        at = at->next;
    return at != NULL;
}

/* ---- calls that CPython makes later, in the main interpreter ---- */

struct call {
    struct call *next;
    int (*function)(void *argument); /* NULL: it is not made any more */
    void *argument;
    struct hf_outside *outside; /* NULL: not known */
};

static int make_call(void *argument)
{
    struct call *call = argument;
    struct hf_outside *outside = call->outside;
    pthread_mutex_lock(&lock);
    if (outside != NULL) {
        struct call **link = &outside->calls;
        while (*link != call)
            link = &(*link)->next;
        *link = call->next;
        outside->running++;
    }
    pthread_mutex_unlock(&lock);
    const int result = call->function != NULL ? call->function(call->argument) : 0;
    pthread_mutex_lock(&lock);
    if (outside != NULL)
        outside->running--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    hf_free(call);
    return result;
}

static int add_call(int (*function)(void *argument), void *argument)
{
    struct call *call = hf_malloc(sizeof *call);
    if (call == NULL)
        return -1;
    pthread_mutex_lock(&lock);
    struct hf_outside *found = whose((const void *)function, __builtin_return_address(0));
    *call = (struct call){found != NULL ? found->calls : NULL, function, argument, found};
    if (found != NULL)
        found->calls = call;
    pthread_mutex_unlock(&lock);
    const int error = others.add_call(make_call, call);
    if (error != 0) {
        call->function = NULL;
        (void)make_call(call);
    }
    return error;
}

/* ---- calls that CPython makes when it ends ---- */

struct ending {
    struct ending *next;
    void (*function)(void);
};

void hf_outside_end(struct hf_outside *outside)
{
    pthread_mutex_lock(&lock);
    while (outside->endings != NULL) {
        struct ending *ending = outside->endings;
        outside->endings = ending->next;
        pthread_mutex_unlock(&lock);
        ending->function();
        hf_free(ending);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Of copies that are as they were. */
static void end_all(void)
{
    for (struct hf_outside *at = all; at != NULL; at = at->next)
        hf_outside_end(at);
}

/* CPython has room for 32 functions; one is for all copies. */
static int at_exit(void (*function)(void))
{
    static bool is_expected;
    struct ending *ending = hf_malloc(sizeof *ending);
    if (ending == NULL)
        return -1;
    pthread_mutex_lock(&lock);
    is_expected = is_expected || others.at_exit(end_all) == 0;
    struct hf_outside *found = whose((const void *)function, __builtin_return_address(0));
    const bool is_added = is_expected && found != NULL;
    if (is_added) {
        *ending = (struct ending){found->endings, function};
        found->endings = ending;
    }
    pthread_mutex_unlock(&lock);
    if (is_added)
        return 0;
    hf_free(ending);
    return others.at_exit(function);
}

/* ---- threads ---- */

struct start {
    union {
        void *(*posix)(void *argument);
        int (*c)(void *argument);
        void (*python)(void *argument);
    } run;
    void *argument;
    struct hf_outside *outside;
};

static void count_thread(struct hf_outside *outside, int change)
{
    if (outside == NULL)
        return;
    pthread_mutex_lock(&lock);
    outside->threads += (unsigned)change;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct hf_outside *thread_begins(const void *handed, const void *caller)
{
    pthread_mutex_lock(&lock);
    struct hf_outside *found = whose(handed, caller);
    pthread_mutex_unlock(&lock);
    count_thread(found, 1);
    return found;
}

static void thread_is_over(void *outside)
{
    count_thread(outside, -1);
}

/* NULL: there is no memory. */
static struct start *new_start(struct start model, const void *caller)
{
    struct start *start = hf_malloc(sizeof *start);
    if (start == NULL)
        return NULL;
    *start = model;
    start->outside = thread_begins((const void *)model.run.posix, caller);
    return start;
}

static void not_started(struct start *start)
{
    thread_is_over(start->outside);
    hf_free(start);
}

/* In the new thread, which is over when its objects have been destroyed. */
static struct start taken(void *argument)
{
    const struct start start = *(struct start *)argument;
    hf_free(argument);
    (void)__cxa_thread_atexit_impl(thread_is_over, start.outside, &__dso_handle);
    return start;
}

static void *run_posix(void *argument)
{
    const struct start start = taken(argument);
    return start.run.posix(start.argument);
}

static int run_c(void *argument)
{
    const struct start start = taken(argument);
    return start.run.c(start.argument);
}

static void run_python(void *argument)
{
    const struct start start = taken(argument);
    start.run.python(start.argument);
}

static int thread_create(pthread_t *thread, const pthread_attr_t *attributes,
                         void *(*run)(void *argument), void *argument)
{
    struct start *start =
        new_start((struct start){{.posix = run}, argument, NULL}, __builtin_return_address(0));
    const int error = start != NULL ? pthread_create(thread, attributes, run_posix, start) : EAGAIN;
    if (error != 0 && start != NULL)
        not_started(start);
    return error;
}

static int c_thread_create(thrd_t *thread, thrd_start_t run, void *argument)
{
    struct start *start =
        new_start((struct start){{.c = run}, argument, NULL}, __builtin_return_address(0));
    const int error = start != NULL ? thrd_create(thread, run_c, start) : thrd_nomem;
    if (error != thrd_success && start != NULL)
        not_started(start);
    return error;
}

#define NOT_STARTED ((unsigned long)-1) /* PYTHREAD_INVALID_THREAD_ID */

static unsigned long python_thread_create(void (*run)(void *argument), void *argument)
{
    struct start *start =
        new_start((struct start){{.python = run}, argument, NULL}, __builtin_return_address(0));
    const unsigned long thread =
        start != NULL ? others.start_python(run_python, start) : NOT_STARTED;
    if (thread == NOT_STARTED && start != NULL)
        not_started(start);
    return thread;
}

/* ---- threads of libstdc++ ---- */

struct wrapped {
    struct state state;
    struct state *original;
    struct hf_outside *outside;
};

static void destroy_state(struct state *state)
{
    struct wrapped *wrapped = (struct wrapped *)state;
    if (wrapped->original != NULL)
        wrapped->original->functions[1](wrapped->original);
    wrapped->original = NULL;
    thread_is_over(wrapped->outside);
}

static void free_state(struct state *state)
{
    destroy_state(state);
    hf_free(state);
}

static void run_state(struct state *state)
{
    struct state *original = ((struct wrapped *)state)->original;
    original->functions[2](original);
}

#define START_THREAD \
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"

/* std::thread::_M_start_thread(std::unique_ptr<_State>, void (*)()). */
static void start_thread(void *thread, struct state **state, void (*depends)(void))
{
    static void (*const functions[])(struct state *) = {destroy_state, free_state, run_state};
    struct wrapped *wrapped = hf_malloc(sizeof *wrapped);
    struct hf_outside *found =
        thread_begins((const void *)(*state)->functions, __builtin_return_address(0));
    if (wrapped != NULL) {
        *wrapped = (struct wrapped){{functions}, *state, found};
        *state = &wrapped->state;
    } /* else it counts for ever */
    others.start_thread(thread, state, depends);
}

/* ---- slots ---- */

static const struct hf_watched watched[] = {
    {"pthread_key_create", (void *)key_create, NULL},
    {"pthread_key_delete", (void *)key_delete, NULL},
    {"tss_create", (void *)c_key_create, NULL},
    {"tss_delete", (void *)c_key_delete, NULL},
    {"PyThread_tss_create", (void *)python_key_create, &others.key_create},
    {"PyThread_tss_delete", (void *)python_key_delete, &others.key_delete},
    {"__cxa_thread_atexit", (void *)at_thread_exit, NULL},
    {"__cxa_thread_atexit_impl", (void *)at_thread_exit, NULL},
    {"Py_AddPendingCall", (void *)add_call, &others.add_call},
    {"Py_AtExit", (void *)at_exit, &others.at_exit},
    {"pthread_create", (void *)thread_create, NULL},
    {"thrd_create", (void *)c_thread_create, NULL},
    {"PyThread_start_new_thread", (void *)python_thread_create, &others.start_python},
    {START_THREAD, (void *)start_thread, &others.start_thread},
    {"PyThread_create_key", NULL, NULL},
    {NULL, NULL, NULL},
};

int hf_outside_imported(struct hf_elf *elf, bool *imported)
{
    return hf_watched_slots_imported(elf, watched, imported);
}

/* ---- watching ---- */

/* libc gives out the first key that is free; other copies may take some meanwhile. */
enum { FIRST_KEYS = 8 };
static _Thread_local pthread_key_t first_keys[FIRST_KEYS];

void hf_outside_expect(void)
{
    unsigned made = 0;
    while (made < FIRST_KEYS && pthread_key_create(&first_keys[made], NULL) == 0)
        made++;
    for (unsigned i = 0; i < made; i++)
        (void)pthread_key_delete(first_keys[i]);
}

static bool is_known(pthread_key_t key)
{
    bool known = false;
    for (const struct hf_outside *at = all; at != NULL; at = at->next)
        for (unsigned i = 0; i < at->keys_count; i++)
            known = known || at->keys[i] == key;
    return known;
}

static bool made_no_keys(void)
{
    unsigned i = 0;
    pthread_mutex_lock(&lock);
    while (i < FIRST_KEYS && is_known(first_keys[i]))
        i++;
    pthread_mutex_unlock(&lock);
    return i < FIRST_KEYS &&
           pthread_setspecific(first_keys[i], pthread_getspecific(first_keys[i])) == EINVAL;
}

static void set_range(struct hf_outside *outside, const struct hf_object *object)
{
    outside->start = UINTPTR_MAX;
    for (size_t i = 0; i < object->headers_count; i++) {
        const uintptr_t start = object->base + object->headers[i].p_vaddr;
        if (object->headers[i].p_type != PT_LOAD)
            continue;
        outside->start = start < outside->start ? start : outside->start;
        outside->end = start + object->headers[i].p_memsz;
    }
}

int hf_outside_watch(struct hf_outside **out, const struct link_map *map)
{
    struct hf_object object;
    if (!made_no_keys())
        return -EBUSY;
    if (!hf_dynlink_open(map, &object))
        return -ENOTSUP;
    hf_object_segments(&object);
    struct hf_outside *made = hf_malloc(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    *made = (struct hf_outside){0};
    set_range(made, &object);
    pthread_mutex_lock(&lock);
    made->next = all;
    all = made;
    pthread_mutex_unlock(&lock);
    *out = made;
    return hf_watched_slots_change(&object, watched);
}

const char *hf_outside_left(struct hf_outside *outside)
{
    struct timespec until;
    for (struct object *at = own; at != NULL;) {
        const bool is_its = at->outside == outside && at->destroy != NULL;
        if (is_its)
            destroy(at); /* which may make others */
        at = is_its ? own : at->next;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    while (outside->threads == 0 && outside->objects + outside->running > 0 &&
           pthread_cond_timedwait(&changed, &lock, &until) == 0)
        ;
    for (struct call *at = outside->calls; at != NULL; at = at->next)
        at->function = NULL;
    const char *left = outside->threads > 0   ? "threads that it has started still run"
                       : outside->objects > 0 ? "threads that live on have objects of it"
                       : outside->running > 0 ? "CPython still calls it"
                       : outside->is_uncertain
                           ? "it is not known which keys and threads are its own"
                           : NULL;
    pthread_mutex_unlock(&lock);
    return left;
}
