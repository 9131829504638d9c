/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for install(), owner_of(), stats() and route_report(). Owns only the
 * types of their results, which belong to the module object. homefree/_homefree.pyi describes the
 * functions to type checkers. They are called with the GIL held; those that take the loader's lock
 * or the heap's locks release it.
 */
#include "python/native/module_parts.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

/* ---- result types ---- */

static PyStructSequence_Field installed_fields[] = {
    {"python", "what CPython allocates from the heap: 'off', 'raw', 'arena' or 'full'"},
    {"numpy",
     "'off', 'later' (when NumPy is imported), 'installed', 'context' (this context alone), "
     "'too old' (before 1.22) or 'refused'"},
    {NULL, NULL},
};
static PyStructSequence_Desc installed_type = {
    "homefree.Installed", "What install() did, including earlier calls.", installed_fields, 2};

static PyStructSequence_Field owner_fields[] = {
    {"kind", "'heap', 'pymalloc', 'libc', 'allocator', 'stack', 'static', 'unmapped', 'pinned', "
             "'device', 'cuda' or 'unknown'"},
    {"allocator", "the allocator's name, or None"},
    {"object", "path of the shared object that contains the allocator or the address, or None"},
    {"block", "address of the block's first byte; None if it is unknown or no block is live"},
    {"size", "usable bytes of that block, or None"},
    {"domain", "CPython's 'raw', 'mem' or 'object', or None if it is unknown"},
    {"device", "the device's index for 'device' and, if it is known, for 'cuda', or None"},
    {"interpreter", "the number of the interpreter that owns a block of 'pymalloc', or None"},
    {NULL, NULL},
};
static PyStructSequence_Desc owner_type = {
    "homefree.Owner", "The allocator that an address belongs to.", owner_fields, 8};

static PyStructSequence_Field report_fields[] = {
    {"objects", "shared objects and the program, in every namespace"},
    {"changed", "slots that look up the owner first"},
    {"refused", "slots that were left unchanged"},
    {"out_of_reach", "objects or slots that routing cannot reach"},
    {"passes", "how often routing searched for new objects"},
    {"nanoseconds", "time spent in all passes, in nanoseconds"},
    {"entries", "a tuple of homefree.RouteEntry"},
    {NULL, NULL},
};
static PyStructSequence_Desc report_type = {"homefree.RouteReport", "What routing reached.",
                                            report_fields, 7};

static PyStructSequence_Field entry_fields[] = {
    {"state", "'changed', 'refused' or 'out of reach'"},
    {"object", "path of the shared object or program"},
    {"function", "the function that the slot calls; None if the entry is about the whole object"},
    {"slot", "address of the slot, or None"},
    {"reason", "the reason in one line; None for changed slots"},
    {"error", "errno if the system refused, else 0"},
    {NULL, NULL},
};
static PyStructSequence_Desc entry_type = {"homefree.RouteEntry", "One slot, or one object.",
                                           entry_fields, 6};

static PyStructSequence_Field trimmed_fields[] = {
    {"allocator", "'CPython', 'pyarrow', 'torch', 'jemalloc', …, 'homefree' or 'libc'"},
    {"object", "the shared object that it lives in, or None if it has a name of its own"},
    {"how", "the function that was called; None: none is known, and it keeps what it has"},
    {"before", "bytes of the process that were resident before the call; 0: /proc does not tell"},
    {"after", "and after it"},
    {NULL, NULL},
};
static PyStructSequence_Desc trimmed_type = {
    "homefree.Trimmed", "An allocator that was asked for what it does not use.", trimmed_fields, 5};

/* Steals the references to the values, also if one of them is NULL, in which case an exception is
 * set. */
static PyObject *sequence(PyTypeObject *type, PyObject *const *values, Py_ssize_t count)
{
    PyObject *result = PyStructSequence_New(type);
    for (Py_ssize_t i = 0; i < count; i++)
        if (result != NULL && values[i] != NULL)
            PyStructSequence_SetItem(result, i, values[i]);
        else
            Py_XDECREF(values[i]);
    if (result != NULL && PyErr_Occurred()) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

static PyObject *none(void)
{
    return (Py_INCREF(Py_None), Py_None);
}

static PyObject *text(const char *s)
{
    return s != NULL ? PyUnicode_DecodeFSDefault(s) : none();
}

static PyObject *address(const void *ptr)
{
    return ptr != NULL ? PyLong_FromVoidPtr((void *)(uintptr_t)ptr) : none();
}

static const char *name_of(const char *const *names, size_t count, unsigned index)
{
    return index < count ? names[index] : "unknown";
}
#define NAME_OF(names, index) name_of(names, sizeof names / sizeof names[0], (unsigned)(index))

/* ---- install, uninstall ---- */

static const char *const modes[] = {"off", "raw", "arena", "full"};
static const char *const numpy_states[] = {"off",     "later",   "installed",
                                           "context", "too old", "refused"};

static int read_mode(PyObject *value, enum hf_python_mode *out)
{
    const char *const choices[] = {"off", "arena", "full"};
    const enum hf_python_mode values[] = {HF_PYTHON_OFF, HF_PYTHON_ARENA, HF_PYTHON_FULL};
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "install(): python must be a str, not %R", Py_TYPE(value));
        return -1;
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (PyUnicode_CompareWithASCIIString(value, choices[i]) == 0) {
            *out = values[i];
            return 0;
        }
    PyErr_Format(PyExc_ValueError,
                 "install(): python=%R is not a mode; use 'arena' (the default), 'full' or 'off'",
                 value);
    return -1;
}

static const struct homefree_remedy remedies[] = {
    {-EPERM,
     "install(): routing is off, but CPython passes some memory to libc's free(), which only "
     "routing can redirect; remove route:off from HOMEFREE_CONF"},
    {-ENOENT,
     "install(): this interpreter is not CPython 3.9 or newer, so its allocators cannot be "
     "replaced; use install(python='off', numpy=False)"},
    {-ENOSPC,
     "install(): other tools replaced CPython's allocators too often, so there is no room for "
     "another hook; call install() once, before they start"},
    {-ENOSYS,
     "install(): whether python='full' is possible in a free-threaded CPython newer than 3.14 "
     "is not known to this homefree; use install(), which serves the RAW domain"},
    {-ENOTSUP,
     "install(): another libhomefree in this process is the heap, and it is too old to serve "
     "CPython; install one version of homefree for both"},
    {0, NULL},
};

static PyObject *install(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char python_name[] = "python", numpy_name[] = "numpy";
    static char *names[] = {python_name, numpy_name, NULL};
    PyObject *python = NULL;
    int numpy = 1;
    struct hf_python_options options = {.size = sizeof options, .python = HF_PYTHON_ARENA};
    struct hf_python_state state = {.size = sizeof state};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op:install", names, &python, &numpy) ||
        (python != NULL && read_mode(python, &options.python) != 0))
        return NULL;
    options.numpy = numpy;
    options.cpython = (void (*)(void))PyUnicode_FromString;
    int error = hf_python_install(&options, &state);
    if (error != 0)
        return homefree_failed(error, remedies);
    PyObject *values[] = {PyUnicode_FromString(NAME_OF(modes, state.python)),
                          PyUnicode_FromString(NAME_OF(numpy_states, state.numpy))};
    return sequence(homefree_state_of(module)->installed, values, 2);
}

static PyObject *uninstall(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return homefree_done(hf_python_uninstall(), remedies);
}

/* ---- owner_of, stats ---- */

static PyObject *owner_of(PyObject *module, PyObject *value)
{
    static const char *const kinds[] = {"unknown",   "heap",   "pymalloc", "libc",
                                        "allocator", "stack",  "static",   "unmapped",
                                        "pinned",    "device", "cuda"};
    struct hf_owner owner = {.size = sizeof owner, .device = -1, .interpreter = -1};
    const void *ptr = value;
    if (PyLong_Check(value)) {
        unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (number == (unsigned long long)-1 && PyErr_Occurred()) {
            if (PyErr_ExceptionMatches(PyExc_OverflowError))
                PyErr_Format(PyExc_ValueError,
                             "owner_of(): %R is not an address: it is negative or has more than "
                             "64 bits; for the int object itself, pass its id()",
                             value);
            return NULL;
        }
        ptr = (const void *)(uintptr_t)number;
    }
    int error = hf_owner_of(ptr, &owner);
    if (error != 0)
        return homefree_failed(error, remedies);
    PyObject *values[] = {
        PyUnicode_FromString(NAME_OF(kinds, owner.kind)),
        text(owner.allocator),
        text(owner.object),
        address(owner.block),
        owner.block != NULL ? PyLong_FromSize_t(owner.block_size) : none(),
        text(owner.domain),
        owner.device >= 0 ? PyLong_FromLong(owner.device) : none(),
        owner.interpreter >= 0 ? PyLong_FromLongLong(owner.interpreter) : none(),
    };
    return sequence(homefree_state_of(module)->owner, values, 8);
}

static int set_number(PyObject *dict, const char *key, unsigned long long value)
{
    PyObject *number = PyLong_FromUnsignedLongLong(value);
    int result = number != NULL ? PyDict_SetItemString(dict, key, number) : -1;
    Py_XDECREF(number);
    return result;
}

static PyObject *stats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    struct hf_stats stats = {.size = sizeof stats};
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = hf_stats(&stats);
    Py_END_ALLOW_THREADS
    if (error != 0)
        return homefree_failed(error, remedies);
    PyObject *dict = PyDict_New();
    const struct {
        const char *key;
        unsigned long long value;
    } numbers[] = {
        {"region_reserved", stats.region_reserved},
        {"region_used", stats.region_used},
        {"allocated", stats.allocated},
        {"active", stats.active},
        {"resident", stats.resident},
        {"metadata", stats.metadata},
        {"arenas", stats.arenas},
        {"forwards", stats.forwards},
        {"releases_live", stats.releases_live},
        {"releases_run", stats.releases_run},
        {"releases_leaked", stats.releases_leaked},
    };
    for (size_t i = 0; dict != NULL && i < sizeof numbers / sizeof *numbers; i++)
        if (set_number(dict, numbers[i].key, numbers[i].value) != 0)
            Py_CLEAR(dict);
    return dict;
}

/* ---- trim ---- */

/* All known allocators, homefree and libc. */
struct trimmed_rows {
    size_t count;
    struct hf_trimmed rows[256];
};

static void add_trimmed(const struct hf_trimmed *trimmed, void *context)
{
    struct trimmed_rows *all = context;
    if (all->count < sizeof all->rows / sizeof *all->rows)
        all->rows[all->count++] = *trimmed;
}

static PyObject *trimmed_row(PyObject *module, const struct hf_trimmed *row)
{
    PyObject *values[] = {text(row->allocator), text(row->object), text(row->how),
                          PyLong_FromUnsignedLongLong(row->before),
                          PyLong_FromUnsignedLongLong(row->after)};
    return sequence(homefree_state_of(module)->trimmed, values, 5);
}

static PyObject *trim(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct trimmed_rows *all = PyMem_Malloc(sizeof *all);
    int error;
    if (all == NULL)
        return PyErr_NoMemory();
    all->count = 0;
    Py_BEGIN_ALLOW_THREADS
    error = hf_trim(add_trimmed, all);
    Py_END_ALLOW_THREADS
    PyObject *list = NULL;
    if (error != 0 && error != -EAGAIN)
        (void)homefree_failed(error, remedies);
    else
        list = PyList_New((Py_ssize_t)all->count);
    for (size_t i = 0; list != NULL && i < all->count; i++) {
        PyObject *row = trimmed_row(module, &all->rows[i]);
        if (row == NULL)
            Py_CLEAR(list);
        else
            (void)PyList_SetItem(list, (Py_ssize_t)i, row);
    }
    PyMem_Free(all);
    return list;
}

/* ---- what other allocators tell ---- */

static void add_stats(const struct hf_other_stats *stats, void *context)
{
    PyObject **list = context;
    if (*list != NULL &&
        homefree_append(*list, Py_BuildValue("(ssK)", stats->allocator, stats->object,
                                             (unsigned long long)stats->live)) != 0)
        Py_CLEAR(*list);
}

static PyObject *stats_of_others(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const int error = hf_stats_of_others(add_stats, &list);
    if (error != 0)
        Py_CLEAR(list);
    return error != 0 ? homefree_failed(error, remedies) : list;
}

/* ---- route_report ---- */

/* A copy of what the visitor was given. The visitor runs under the loader's lock, where no Python
 * code may run, and its strings are valid only during the call. */
struct seen {
    struct hf_route_entry entry;
    size_t object, function, reason; /* offset of each string in `bytes`, plus one; 0: NULL */
};
struct collection {
    struct seen *entries;
    size_t count, capacity;
    char *bytes;
    size_t length, bytes_capacity;
    int failed;
};

static size_t keep(struct collection *all, const char *s)
{
    if (s == NULL || all->failed)
        return 0;
    size_t size = strlen(s) + 1, at = all->length;
    if (all->bytes_capacity - at < size) {
        size_t capacity = (all->bytes_capacity + size) * 2;
        char *grown = hf_realloc(all->bytes, capacity);
        if (grown == NULL) {
            all->failed = 1;
            return 0;
        }
        all->bytes = grown;
        all->bytes_capacity = capacity;
    }
    memcpy(all->bytes + at, s, size);
    all->length += size;
    return at + 1;
}

static void visit(const struct hf_route_entry *entry, void *context)
{
    struct collection *all = context;
    struct seen *entries =
        homefree_grown(all->entries, &all->capacity, all->count, sizeof *entries);
    if (entries == NULL) {
        all->failed = 1;
        return;
    }
    all->entries = entries;
    entries[all->count++] = (struct seen){*entry, keep(all, entry->object),
                                          keep(all, entry->function), keep(all, entry->reason)};
}

static PyObject *kept(const struct collection *all, size_t at)
{
    return at != 0 ? text(all->bytes + at - 1) : none();
}

static PyObject *entries_of(PyObject *module, const struct collection *all)
{
    static const char *const states[] = {"changed", "refused", "out of reach"};
    PyObject *tuple = PyTuple_New((Py_ssize_t)all->count);
    for (size_t i = 0; tuple != NULL && i < all->count; i++) {
        const struct seen *seen = &all->entries[i];
        PyObject *values[] = {
            PyUnicode_FromString(NAME_OF(states, seen->entry.state)),
            kept(all, seen->object),
            kept(all, seen->function),
            address(seen->entry.slot),
            kept(all, seen->reason),
            PyLong_FromLong(-(long)seen->entry.error),
        };
        PyObject *entry = sequence(homefree_state_of(module)->entry, values, 6);
        if (entry == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, entry) != 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *route_report(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct hf_route_report sums = {.size = sizeof sums};
    struct collection all = {0};
    int error;
    /* Release the GIL: the thread that holds the loader's lock may be waiting for it. */
    Py_BEGIN_ALLOW_THREADS
    error = hf_route_report(&sums, visit, &all);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (all.failed) {
        PyErr_NoMemory();
    } else if (error != 0) {
        homefree_failed(error, remedies);
    } else {
        PyObject *values[] = {
            PyLong_FromUnsignedLongLong(sums.objects),
            PyLong_FromUnsignedLongLong(sums.changed),
            PyLong_FromUnsignedLongLong(sums.refused),
            PyLong_FromUnsignedLongLong(sums.out_of_reach),
            PyLong_FromUnsignedLongLong(sums.passes),
            PyLong_FromUnsignedLongLong(sums.nanoseconds),
            entries_of(module, &all),
        };
        result = sequence(homefree_state_of(module)->report, values, 7);
    }
    hf_free(all.entries);
    hf_free(all.bytes);
    return result;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(hf_version());
}

/* ---- the table ---- */

PyMethodDef homefree_host_methods[] = {
    {"install", (PyCFunction)(void (*)(void))install, METH_VARARGS | METH_KEYWORDS,
     "install(python='arena', numpy=True)\n--\n\nSee homefree.install()."},
    {"uninstall", uninstall, METH_NOARGS, "uninstall()\n--\n\nSee homefree.uninstall()."},
    {"owner_of", owner_of, METH_O,
     "owner_of(obj_or_address, /)\n--\n\n"
     "Name the allocator that owns an address, as an Owner (kind, allocator, object, block, size\n"
     "in bytes, domain).\n\n"
     "An int is an address; anything else is an object, and means the address that id() gives.\n"
     "For memory that an object refers to, pass its address (array.ctypes.data); for an int\n"
     "object itself, its id(). ValueError if an int is not an address: negative or over 64 bits.\n"
     "The answer may be outdated at once, if another thread frees the block. Any thread."},
    {"trim", trim, METH_NOARGS,
     "trim()\n--\n\n"
     "hf_trim(): a list of homefree.Trimmed. Any thread."},
    {"stats_of_others", stats_of_others, METH_NOARGS,
     "stats_of_others()\n--\n\n"
     "hf_stats_of_others(): a list of (allocator, object, live). Any thread."},
    {"stats", stats, METH_NOARGS,
     "stats()\n--\n\n"
     "The heap's counters as a dict: bytes in region_reserved, region_used, allocated, active,\n"
     "resident and metadata; the number of arenas; forwards is 1 if another instance of "
     "libhomefree\n"
     "in this process is the heap; counts of refcounted deleters (hf_release_*): releases_live,\n"
     "releases_run and releases_leaked. Takes the heap's locks: not for hot paths. Any thread."},
    {"route_report", route_report, METH_NOARGS,
     "route_report()\n--\n\n"
     "What routing reached, as a RouteReport: totals, nanoseconds spent, and an entry for each\n"
     "slot or object. Examines every loaded object again, with the GIL released. Any thread."},
    {"version", version, METH_NOARGS, "version()\n--\n\nThe loaded libhomefree's version."},
    {NULL, NULL, 0, NULL},
};

static int add_result(PyObject *module, const char *name, PyStructSequence_Desc *description,
                      PyTypeObject **out)
{
    *out = PyStructSequence_NewType(description);
    return homefree_add_type(module, name, *out);
}

int homefree_host_exec(PyObject *module)
{
    struct homefree_state *state = homefree_state_of(module);
    return add_result(module, "Installed", &installed_type, &state->installed) != 0 ||
                   add_result(module, "Owner", &owner_type, &state->owner) != 0 ||
                   add_result(module, "RouteReport", &report_type, &state->report) != 0 ||
                   add_result(module, "RouteEntry", &entry_type, &state->entry) != 0 ||
                   add_result(module, "Trimmed", &trimmed_type, &state->trimmed) != 0
               ? -1
               : 0;
}

int homefree_host_traverse(PyObject *module, visitproc visitor, void *arg)
{
    struct homefree_state *state = homefree_state_of(module);
    PyObject *const objects[] = {
        (PyObject *)state->installed, (PyObject *)state->owner,   (PyObject *)state->report,
        (PyObject *)state->entry,     (PyObject *)state->trimmed, (PyObject *)state->shared,
        (PyObject *)state->message,   (PyObject *)state->view,    state->array};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        int result = objects[i] != NULL ? visitor(objects[i], arg) : 0;
        if (result != 0)
            return result;
    }
    return 0;
}

int homefree_host_clear(PyObject *module)
{
    struct homefree_state *state = homefree_state_of(module);
    Py_CLEAR(state->installed);
    Py_CLEAR(state->owner);
    Py_CLEAR(state->report);
    Py_CLEAR(state->entry);
    Py_CLEAR(state->trimmed);
    Py_CLEAR(state->shared);
    Py_CLEAR(state->message);
    Py_CLEAR(state->view);
    Py_CLEAR(state->array);
    return 0;
}
