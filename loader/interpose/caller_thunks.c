/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the thunks and the table of thunked objects. Slots and the table change under the loader's
 * lock (loader_lock.h); thunks read the table without a lock.
 *
 * A thunk may run at any stage and on any thread that may call the heap. It may also run for a
 * moment after its slots have been restored; it then attributes the call to no object.
 */
#include "loader/interpose/caller_thunks.h"

#include "alloc/heap/internal.h"
#include "alloc/trace/watch.h"
#include "loader/interpose/got_slots.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/slot_writes.h"
#include "loader/interpose/symbol_tables.h"

#include <stdatomic.h>
#include <string.h>

/* An address in each thunked object; NULL in free entries. */
static const void *_Atomic objects[HF_THUNKS_MAX];

/* F(name, result, parameters, arguments); V for functions without a result. */
#define EACH_FUNCTION(F, V)                                                                     \
    F(malloc, void *, (size_t size), (size))                                                    \
    F(calloc, void *, (size_t count, size_t size), (count, size))                               \
    F(realloc, void *, (void *ptr, size_t size), (ptr, size))                                   \
    F(reallocarray, void *, (void *ptr, size_t count, size_t size), (ptr, count, size))         \
    F(aligned_alloc, void *, (size_t alignment, size_t size), (alignment, size))                \
    F(memalign, void *, (size_t alignment, size_t size), (alignment, size))                     \
    F(posix_memalign, int, (void **out, size_t alignment, size_t size), (out, alignment, size)) \
    F(strdup, char *, (const char *s), (s))                                                     \
    F(strndup, char *, (const char *s, size_t n), (s, n))                                       \
    F(wcsdup, wchar_t *, (const wchar_t *s), (s))                                               \
    F(vasprintf, int, (char **out, const char *format, va_list args), (out, format, args))      \
    F(realpath, char *, (const char *path, char *resolved), (path, resolved))                   \
    F(canonicalize_file_name, char *, (const char *path), (path))                               \
    F(getcwd, char *, (char *buffer, size_t size), (buffer, size))                              \
    F(get_current_dir_name, char *, (void), ())                                                 \
    V(free, (void *ptr), (ptr))                                                                 \
    V(free_sized, (void *ptr, size_t size), (ptr, size))                                        \
    V(free_aligned, (void *ptr, size_t alignment), (ptr, alignment))                            \
    V(free_aligned_sized, (void *ptr, size_t alignment, size_t size), (ptr, alignment, size))   \
    F(delete_foreign, bool, (void *ptr, enum hf_delete_form form, size_t alignment),            \
      (ptr, form, alignment))

/* clang-format off */
#define EACH_INDEX(DEFINE, ...)                                                     \
    DEFINE(0, __VA_ARGS__) DEFINE(1, __VA_ARGS__) DEFINE(2, __VA_ARGS__)            \
    DEFINE(3, __VA_ARGS__) DEFINE(4, __VA_ARGS__) DEFINE(5, __VA_ARGS__)            \
    DEFINE(6, __VA_ARGS__) DEFINE(7, __VA_ARGS__) DEFINE(8, __VA_ARGS__)            \
    DEFINE(9, __VA_ARGS__) DEFINE(10, __VA_ARGS__) DEFINE(11, __VA_ARGS__)          \
    DEFINE(12, __VA_ARGS__) DEFINE(13, __VA_ARGS__) DEFINE(14, __VA_ARGS__)         \
    DEFINE(15, __VA_ARGS__) DEFINE(16, __VA_ARGS__) DEFINE(17, __VA_ARGS__)         \
    DEFINE(18, __VA_ARGS__) DEFINE(19, __VA_ARGS__) DEFINE(20, __VA_ARGS__)         \
    DEFINE(21, __VA_ARGS__) DEFINE(22, __VA_ARGS__) DEFINE(23, __VA_ARGS__)         \
    DEFINE(24, __VA_ARGS__) DEFINE(25, __VA_ARGS__) DEFINE(26, __VA_ARGS__)         \
    DEFINE(27, __VA_ARGS__) DEFINE(28, __VA_ARGS__) DEFINE(29, __VA_ARGS__)         \
    DEFINE(30, __VA_ARGS__) DEFINE(31, __VA_ARGS__)
/* clang-format on */
_Static_assert(HF_THUNKS_MAX == 32, "EACH_INDEX makes 32");

#define ENTER(index)                                                           \
    const struct hf_watch_call *const before = hf_watch_call;                  \
    const struct hf_watch_call mine = {.caller = atomic_load(&objects[index]), \
                                       .back = __builtin_return_address(0)};   \
    hf_watch_call = &mine
#define LEAVE hf_watch_call = before
#define THUNK(index, name, result, parameters, arguments) \
    static result thunk_##name##_##index parameters       \
    {                                                     \
        ENTER(index);                                     \
        result value = hf_##name arguments;               \
        LEAVE;                                            \
        return value;                                     \
    }
#define THUNK_VOID(index, name, parameters, arguments) \
    static void thunk_##name##_##index parameters      \
    {                                                  \
        ENTER(index);                                  \
        hf_##name arguments;                           \
        LEAVE;                                         \
    }
#define THUNKS(name, result, parameters, arguments) \
    EACH_INDEX(THUNK, name, result, parameters, arguments)
#define THUNKS_VOID(name, parameters, arguments) EACH_INDEX(THUNK_VOID, name, parameters, arguments)
EACH_FUNCTION(THUNKS, THUNKS_VOID)

#define ROW_NUMBER(name, ...) ROW_##name,
enum row { EACH_FUNCTION(ROW_NUMBER, ROW_NUMBER) ROWS };

#define ROW(name, ...) [ROW_##name] = {"hf_" #name, (void *)hf_##name},
static const struct {
    const char *name;
    void *function;
} rows[] = {EACH_FUNCTION(ROW, ROW)};

/* Not a table of addresses, which each start would have to relocate, in two pages of it. */
#define CASE(index, name, ...)                \
    case ROW_##name *HF_THUNKS_MAX + (index): \
        return (void *)thunk_##name##_##index;
#define CASES(name, ...) EACH_INDEX(CASE, name)
static void *thunk_of(int row, size_t number)
{
    switch ((size_t)row * HF_THUNKS_MAX + number) {
        EACH_FUNCTION(CASES, CASES)
    default:
        return NULL;
    }
}

_Static_assert(ROWS <= HF_FUNCTION_NAMES_MAX, "got_slots.h has room for every name");

static int row_by_name(const char *name)
{
    if (name[0] != 'h' || name[1] != 'f' || name[2] != '_')
        return -1;
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

static const char *name_of_row(int row)
{
    return rows[row].name;
}

static const struct hf_function_names names = {ROWS, row_by_name, name_of_row, NULL};

/* The object being processed. */
struct work {
    struct hf_writer writer;
    const struct link_map *map;
    int number; /* -1: not assigned yet */
    bool on;
};

/* Returns the object's number, assigning one if needed; -1 when all are taken. */
static int number_of(const struct link_map *map)
{
    int free_number = -1;
    for (int i = HF_THUNKS_MAX - 1; i >= 0; i--) {
        const void *address = atomic_load(&objects[i]);
        if (address == (const void *)map->l_ld)
            return i;
        if (address == NULL)
            free_number = i;
    }
    if (free_number >= 0)
        atomic_store(&objects[free_number], (const void *)map->l_ld);
    return free_number;
}

static bool is_thunk(int row, const void *value)
{
    for (size_t i = 0; i < HF_THUNKS_MAX; i++)
        if (thunk_of(row, i) == value)
            return true;
    return false;
}

static void visit(const struct hf_slot *slot, void *context)
{
    struct work *work = context;
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE), *wanted;
    if (work->on) {
        /* Replace libhomefree's own address, or an unresolved slot, which still leads into the
         * object's own PLT. */
        bool unresolved = slot->kind == HF_SLOT_CALL && hf_dynlink_find(value) == work->map;
        if (slot->kind == HF_SLOT_WORD || (value != rows[slot->function].function && !unresolved))
            return;
        if (work->number < 0)
            work->number = number_of(work->map);
        if (work->number < 0)
            return;
        wanted = thunk_of(slot->function, (size_t)work->number);
    } else {
        if (!is_thunk(slot->function, value))
            return;
        wanted = rows[slot->function].function;
    }
    if (hf_write_is_allowed(&work->writer, slot->address))
        (void)hf_write_slot(&work->writer, slot->address, wanted, value);
}

static void update_object(const struct link_map *map, bool on)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    struct work work = {{.object = &object}, map, -1, on};
    hf_slots_visit(&object, &names, false, visit, &work);
    hf_write_close(&work.writer);
}

/* A watch that opens meanwhile waits for the loader's lock and adds all objects. */
void hf_thunks_add(const struct link_map *map)
{
    for (const bool on = hf_watch_is_open(); on && map != NULL; map = map->l_next)
        update_object(map, true);
}

/* Finds the free() that calls in the program's namespace reach. Reads definitions only: dlsym() may
 * return a PLT entry of the program. */
static void find_process_free(const struct link_map *map)
{
    for (; map != NULL; map = map->l_next) {
        struct hf_object object;
        void *found = hf_dynlink_open(map, &object) ? hf_table_address(&object, "free") : NULL;
        if (found != NULL) {
            hf_watch_set_home(found);
            return;
        }
    }
}

/* Asks for open watches under the lock, so the last caller to get here applies the latest state. */
static void update_slots(void *context)
{
    bool on = hf_watch_is_open();
    (void)context;
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    if (on && count > 0)
        find_process_free(first[0]);
    hf_write_begin(false);
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            update_object(map, on);
    hf_write_end();
    for (size_t i = 0; i < HF_THUNKS_MAX && !on; i++)
        atomic_store(&objects[i], NULL);
}

static void watches_changed(void)
{
    (void)hf_loader_lock_run(update_slots, NULL);
}

void hf_thunks_start(void)
{
    hf_watch_offer_thunks(watches_changed);
}
