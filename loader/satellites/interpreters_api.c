/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/interpreters.h. The groups and sessions are those of the
 * heap's instance, to which every other one forwards. It has them in a satellite
 * (satellites/interpreters/), which it opens when it is first asked for something that makes or
 * needs an interpreter.
 *
 * Owns the satellite's place and what diagnostics mode wants of interpreters, both sealed.
 */
#include "loader/satellites/interpreters_api.h"

#include "alloc/base/satellite.h"
#include "alloc/base/sized.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "loader/host/interpreter_heaps.h"
#include "loader/host/interpreter_memory.h"
#include "loader/host/left_behind.h"
#include "loader/host/pymalloc.h"
#include "loader/satellites/adopt_api.h"
#include "loader/satellites/interpreters_tables.h"
#include "loader/satellites/limits_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/libc.h>
#include <link.h>

/* ---- limits of interpreters ---- */

static struct hf_limit *making; /* of an interpreter that is being made; one is at a time */

static void end_limit(struct hf_limit *limit)
{
    while (hf_limit_end(limit) == -EAGAIN)
        ;
}

/* While an interpreter is made, nothing is refused. */
static int interpreter_begins(uint64_t memory_limit)
{
    const struct hf_limit_options options = {.size = sizeof options, .name = "an interpreter"};
    int number = HF_LIMITS_COUNT;
    making = NULL;
    if (memory_limit != 0) {
        const int error = hf_limit_begin(&making, NULL, HF_LIMIT_NONE, &options);
        if (error != 0)
            return error;
        number = hf_limit_number(making);
    }
    const int error = hf_interpreter_heap_prepare(making, (unsigned)number);
    if (error == 0 || making == NULL)
        return 0;
    end_limit(making);
    return error;
}

static void interpreter_begun(int64_t interpreter)
{
    if (!hf_interpreter_heap_begin(interpreter))
        end_limit(making);
}

static int set_limit(int64_t interpreter, uint64_t most)
{
    unsigned number;
    struct hf_limit *limit = hf_interpreter_heap_limit(interpreter, &number);
    if (limit == NULL)
        return -ENOENT;
    (void)hf_limit_set(limit, most);
    return hf_limited_fits(&hf_limited[number], 0) ? 0 : -ENOMEM;
}

/* It runs nothing more that could ask for much, but may stay for long. */
static void unlimit(int64_t interpreter)
{
    end_limit(hf_interpreter_heap_unlimit(interpreter));
}

/* Who may use what an ended interpreter had. */
struct leavers {
    size_t count;
    struct {
        char *path;
        const char *why;
    } rows[16];
};

static void add_leaver(void *context, const char *path, const char *why)
{
    struct leavers *leavers = context;
    char *kept =
        leavers->count < sizeof leavers->rows / sizeof leavers->rows[0] ? hf_strdup(path) : NULL;
    if (kept == NULL)
        return;
    leavers->rows[leavers->count].path = kept;
    leavers->rows[leavers->count++].why = why;
}

/* Destructors of copies may use what is given back then. */
static void interpreter_ended(int64_t interpreter)
{
    struct leavers leavers = {0};
    unsigned number;
    struct hf_limit *limit = hf_interpreter_heap_limit(interpreter, &number);
    if (hf_lent_copies_ended(interpreter, add_leaver, &leavers))
        (void)hf_interpreter_heap_keep(interpreter);
    const uint64_t bytes = hf_left_behind_give_back(interpreter);
    if (bytes != 0 && leavers.count == 0)
        hf_leavings_add("the program", "it has called hf_interpreters_keep()", bytes);
    for (size_t i = 0; i < leavers.count; i++) {
        hf_leavings_add(leavers.rows[i].path, leavers.rows[i].why, bytes);
        hf_free(leavers.rows[i].path);
    }
    end_limit(limit);
}

static bool measure(struct hf_interpreter_memory *rows, size_t count)
{
    if (!hf_interpreter_memory_measure(rows, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct hf_limit_state state = {.size = sizeof state, .limit = HF_LIMIT_NONE};
        unsigned number;
        const struct hf_limit *limit = hf_interpreter_heap_limit(rows[i].id, &number);
        rows[i].is_counted = limit != NULL && hf_limit_read(limit, &state) == 0;
        rows[i].limit = state.limit;
        rows[i].used = state.used;
        rows[i].peak = state.peak;
        rows[i].refused = state.refused;
    }
    return true;
}

static const struct hf_interpreters_core core_functions;
struct place {
    struct hf_satellite satellite;
    struct hf_interpreters_observer observer;
};
static HF_SEALED_UNION(struct place, it) state HF_SEALED = {
    .it.satellite = {.name = "interpreters", .core = &core_functions}};

static const struct hf_interpreters_core core_functions = {
#define HF_CORE_GIVES(result, name, parameters, arguments) .name = name,
#define HF_CORE_DOES(name, parameters, arguments)          .name = name,
#include "loader/satellites/interpreters_tables.def"
    .begins = interpreter_begins,
    .begun = interpreter_begun,
    .limit = set_limit,
    .unlimit = unlimit,
    .measure = measure,
    .ended = interpreter_ended,
    .entered = hf_lent_copies_entered,
    .observer = &state.it.observer,
};

/* The functions of the heap's instance; in that one, those of the satellite if it is open. */
static const struct hf_interpreters_functions *functions(void)
{
    static const struct hf_interpreters_functions none;
    const struct hf_instance_functions *other = hf_instance_other();
    const struct hf_interpreters_functions *found =
        HF_LIKELY(other == NULL) ? hf_satellite_functions(&state.it.satellite)
                                 : other->interpreters;
    return found != NULL ? found : &none;
}

static bool is_elsewhere(void)
{
    (void)functions();
    return hf_instance_forward() != NULL;
}

/* The same after opening it; without one, `why` says what is missing. */
static const struct hf_interpreters_functions *opened(char *why, size_t size)
{
    const struct hf_interpreters_functions *to = functions();
    if (hf_instance_forward() == NULL && hf_satellite_open(&state.it.satellite, why, size) != NULL)
        to = functions();
    return to;
}

#define CALL(to, function, otherwise, arguments)                                \
    do {                                                                        \
        const struct hf_interpreters_functions *table = to;                     \
        return table->function != NULL ? table->function arguments : otherwise; \
    } while (0)
/* What is done with what there is: without a satellite there is nothing. */
#define FORWARD(function, otherwise, arguments) CALL(functions(), function, otherwise, arguments)

#define HF_FORWARDS(result, member, name, parameters, arguments, otherwise) \
    result name parameters                                                  \
    {                                                                       \
        FORWARD(member, otherwise, arguments);                              \
    }
#define HF_FORWARDS_VOID(member, name, parameters, arguments)     \
    void name parameters                                          \
    {                                                             \
        const struct hf_interpreters_functions *to = functions(); \
        if (to->member != NULL)                                   \
            to->member arguments;                                 \
    }
#include "loader/satellites/interpreters_tables.def"

int hf_interpreters_engine(char *why, size_t size)
{
    CALL(opened(why, size), engine, -ENOTSUP, (why, size));
}

int hf_interpreters_start(struct hf_interpreters **out,
                          const struct hf_interpreters_options *options, char *why, size_t why_size)
{
    CALL(opened(why, why_size), start, -ENOTSUP, (out, options, why, why_size));
}

static int no_totals(struct hf_interpreters_counts *out)
{
    const struct hf_interpreters_counts all = {.size = sizeof all};
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    hf_sized_copy(out, &all, sizeof all);
    return 0;
}

int hf_interpreters_totals(struct hf_interpreters_counts *out)
{
    FORWARD(totals, no_totals(out), (out));
}

static int left_here(int64_t interpreter, bool give_back, struct hf_interpreter_left *out)
{
    struct hf_pymalloc_left found;
    if (out != NULL && out->size <= sizeof(size_t))
        return -EINVAL;
    const int error = hf_pymalloc_left(interpreter, give_back, &found);
    if (error != 0)
        return error;
    const struct hf_interpreter_left all = {.size = sizeof all,
                                            .blocks = found.blocks,
                                            .arenas = found.arenas,
                                            .bytes = found.bytes,
                                            .leaked = found.leaked};
    if (out != NULL)
        hf_sized_copy(out, &all, sizeof all);
    return 0;
}

int hf_interpreters_memory(hf_interpreter_memory_visitor *visit, void *context)
{
    CALL(opened(NULL, 0), memory, -ENOTSUP, (visit, context));
}

int hf_interpreters_limit(int64_t interpreter, uint64_t bytes)
{
    if (is_elsewhere())
        FORWARD(limit, -ENOENT, (interpreter, bytes));
    return set_limit(interpreter, bytes);
}

static int limit_object(int64_t interpreter, void *handle)
{
    const struct link_map *map;
    unsigned number;
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return -EINVAL;
    struct hf_limit *limit = hf_interpreter_heap_limit(interpreter, &number);
    if (limit == NULL)
        return -ENOENT;
    const int error = hf_adopt(handle);
    return error < 0 ? error : hf_limit_add(limit, map->l_name);
}

int hf_interpreters_limit_object(int64_t interpreter, void *handle)
{
    if (is_elsewhere())
        FORWARD(limit_object, -ENOENT, (interpreter, handle));
    return limit_object(interpreter, handle);
}

/* If it cannot be noted what has to be looked at, all stays. */
int hf_interpreters_keep(int64_t interpreter, void *handle)
{
    if (is_elsewhere())
        FORWARD(keep, -ENOENT, (interpreter, handle));
    if (hf_interpreter_heap_of(interpreter) == NULL)
        return -ENOENT;
    if (handle == NULL || hf_lent_copies_common(interpreter, handle) != 0)
        (void)hf_interpreter_heap_keep(interpreter);
    return 0;
}

int hf_interpreters_leaks(hf_interpreter_leak_visitor *visit, void *context)
{
    if (visit == NULL)
        return -EINVAL;
    if (is_elsewhere())
        FORWARD(leaks, 0, (visit, context));
    return hf_leavings_each(visit, context);
}

int hf_interpreters_left(int64_t interpreter, bool give_back, struct hf_interpreter_left *out)
{
    if (is_elsewhere())
        FORWARD(left, -ENOENT, (interpreter, give_back, out));
    return left_here(interpreter, give_back, out);
}

int hf_interpreters_post(int64_t interpreter, void (*run)(void *argument), void *argument)
{
    CALL(opened(NULL, 0), post, -ENOTSUP, (interpreter, run, argument));
}

int hf_interpreters_hold(int64_t interpreter)
{
    CALL(opened(NULL, 0), hold, -ENOTSUP, (interpreter));
}

static int64_t current_here(void)
{
    if (hf_cpython_find(NULL) == NULL)
        return -1;
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    if (py == NULL || !hf_cpython_attached(py->cpython))
        return -1;
    return py->interpreter_id(py->interpreter_of(py->cpython->current_thread()));
}

int64_t hf_interpreter_current(void)
{
    if (is_elsewhere())
        FORWARD(current, -1, ());
    return current_here();
}

/* ---- the start ---- */

const struct hf_interpreters_functions hf_interpreters_offered = {
#define HF_FUNCTION(result, member, name, parameters) .member = name,
#include "loader/satellites/interpreters_tables.def"
};

void hf_interpreters_observe(const struct hf_interpreters_observer *observer)
{
    struct hf_seal seal;
    if (!hf_seal_open(&seal))
        return;
    state.it.observer = *observer;
    hf_seal_close(&seal);
}
