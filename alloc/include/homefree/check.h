/*
 * homefree/check.h - assertions about boundaries, for suites of the test framework Check.
 *
 * The assertions say who owns a pointer, whether memory crosses a boundary between shared objects
 * while a block of code runs, and whether a block of memory is freed exactly once. A test program
 * includes this header and links Check and homefree. C11 and C++17, with and without Check's fork
 * mode.
 *
 *     START_TEST(the_host_frees_what_greet_returns)
 *     {
 *         char *text = greet("you");
 *         hf_ck_assert_owner(text, HF_OWNER_HEAP);
 *         hf_ck_assert_freed_once(text, { free(text); });
 *         hf_ck_assert_crossed("greet", "test_greet", { free(greet("you")); });
 *         hf_ck_assert_no_crossing({ greet_free(greet("you")); });
 *     }
 *     END_TEST
 *
 * homefree/watch.h defines what a crossing is, and to which object a call belongs. A block of code
 * is run once. It may contain commas, but must not be left by return, break, goto or an exception.
 * What other threads do in the meantime is recorded too.
 *
 * The assertions are Check's, and must run in the test's own process. If an assertion inside the
 * block fails in a process that does not fork for each test, the watch stays open until the process
 * ends, which costs time and one of HF_WATCHES_MAX. Names that begin with hf_ck_ or HF_CK_ are
 * internal, except for the assertions.
 */
#ifndef HOMEFREE_HOMEFREE_CHECK_H
#define HOMEFREE_HOMEFREE_CHECK_H

#include <homefree/homefree.h>

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wold-style-cast"
#    pragma GCC diagnostic ignored "-Wshadow"
#    pragma GCC diagnostic ignored "-Wmissing-field-initializers"
extern "C" {
#endif

/* ---- assertions ---- */

/*
 * Asserts that an address belongs to a kind of owner.
 *
 * Parameters:
 *   p     in: any address; it is not accessed
 *   kind  in: HF_OWNER_HEAP, HF_OWNER_LIBC or another enum hf_owner_kind
 * Result: none.
 * Errors: a failed assertion ends the test, as ck_assert() does.
 * Frees: nothing.
 * Threads: any thread from which Check allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_owner(p, kind)                                          \
    do {                                                                     \
        struct hf_ck hf_ck_;                                                 \
        ck_assert_msg(hf_ck_is_owner(&hf_ck_, (p), #p, (kind)), HF_CK_TEXT); \
    } while (0)

/*
 * Asserts that no memory crosses a boundary while a block of code runs.
 *
 * Parameters:
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as ck_assert() does.
 * Frees: nothing.
 * Threads: any thread from which Check allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_no_crossing(...) \
    HF_CK_AROUND(hf_ck_begin(&hf_ck_), hf_ck_end_no_crossing(&hf_ck_), __VA_ARGS__)

/*
 * Asserts that at least one block of memory crosses from one object to another while a block of
 * code runs.
 *
 * Parameters:
 *   allocated_by  in: a part of the object's file name, without the folder; NULL for any object
 *   freed_by      in: the same
 *   ...           in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as ck_assert() does.
 * Frees: nothing.
 * Threads: any thread from which Check allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_crossed(allocated_by, freed_by, ...)                                      \
    HF_CK_AROUND(hf_ck_begin(&hf_ck_), hf_ck_end_crossed(&hf_ck_, (allocated_by), (freed_by)), \
                 __VA_ARGS__)

/*
 * Asserts that a block of memory is freed exactly once while a block of code runs, by any object.
 *
 * Blocks that are allocated at the same address afterwards do not count. For a foreign block, only
 * frees through the heap are seen.
 *
 * Parameters:
 *   p    in: the first byte of the block of memory
 *   ...  in: the block of code
 * Result: none.
 * Errors: a failed assertion ends the test, as ck_assert() does.
 * Frees: nothing.
 * Threads: any thread from which Check allows assertions.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
#define hf_ck_assert_freed_once(p, ...)                                                   \
    HF_CK_AROUND(hf_ck_begin_freed_once(&hf_ck_, (p), #p), hf_ck_end_freed_once(&hf_ck_), \
                 __VA_ARGS__)

/* ---- internal ---- */

#define HF_CK_TEXT   "%s", hf_ck_.text
#define HF_CK_INLINE static inline __attribute__((unused))

#define HF_CK_AROUND(begin, end, ...)       \
    do {                                    \
        struct hf_ck hf_ck_;                \
        ck_assert_msg((begin), HF_CK_TEXT); \
        {                                   \
            __VA_ARGS__;                    \
        }                                   \
        ck_assert_msg((end), HF_CK_TEXT);   \
    } while (0)

struct hf_ck {
    struct hf_watch *watch;
    const void *pointer;
    size_t length, found;
    const char *allocated_by, *freed_by;
    char text[2048]; /* why it failed */
};

HF_CK_INLINE __attribute__((format(printf, 2, 3))) void hf_ck_say(struct hf_ck *state,
                                                                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(state->text + state->length, sizeof state->text - state->length, format,
                           arguments);
    va_end(arguments);
    if (length > 0)
        state->length += (size_t)length;
    if (state->length >= sizeof state->text)
        state->length = sizeof state->text - 1;
}

HF_CK_INLINE const char *hf_ck_who(const char *path)
{
    return path[0] != '\0' ? path : "unknown code";
}

HF_CK_INLINE const char *hf_ck_kind(enum hf_owner_kind kind)
{
    switch (kind) {
    case HF_OWNER_HEAP:
        return "HF_OWNER_HEAP";
    case HF_OWNER_PYMALLOC:
        return "HF_OWNER_PYMALLOC";
    case HF_OWNER_LIBC:
        return "HF_OWNER_LIBC";
    case HF_OWNER_ALLOCATOR:
        return "HF_OWNER_ALLOCATOR";
    case HF_OWNER_STACK:
        return "HF_OWNER_STACK";
    case HF_OWNER_STATIC:
        return "HF_OWNER_STATIC";
    case HF_OWNER_UNMAPPED:
        return "HF_OWNER_UNMAPPED";
    case HF_OWNER_UNKNOWN:
        break;
    }
    return "HF_OWNER_UNKNOWN";
}

/* "p (0x7f…, HF_OWNER_HEAP, homefree in /…/libhomefree.so.1, 16 bytes)" */
HF_CK_INLINE void hf_ck_describe(struct hf_ck *state, const void *pointer, const char *expression,
                                 struct hf_owner *owner)
{
    memset(owner, 0, sizeof *owner);
    owner->size = sizeof *owner;
    (void)hf_owner_of(pointer, owner);
    hf_ck_say(state, "%s (%p, %s", expression, pointer, hf_ck_kind(owner->kind));
    if (owner->allocator != NULL)
        hf_ck_say(state, ", %s", owner->allocator);
    if (owner->object != NULL)
        hf_ck_say(state, "%s%s", owner->allocator != NULL ? " in " : ", in ", owner->object);
    if (owner->block != NULL)
        hf_ck_say(state, ", %zu bytes", owner->block_size);
    hf_ck_say(state, ")");
}

HF_CK_INLINE void hf_ck_init(struct hf_ck *state)
{
    memset(state, 0, sizeof *state);
}

HF_CK_INLINE bool hf_ck_is_owner(struct hf_ck *state, const void *pointer, const char *expression,
                                 enum hf_owner_kind kind)
{
    struct hf_owner owner;
    hf_ck_init(state);
    hf_ck_describe(state, pointer, expression, &owner);
    hf_ck_say(state, " does not belong to %s", hf_ck_kind(kind));
    return owner.kind == kind;
}

HF_CK_INLINE bool hf_ck_start(struct hf_ck *state)
{
    int error = hf_watch_begin(&state->watch, 0);
    if (error == 0)
        return true;
    state->length = 0;
    hf_ck_say(state, "no watch can begin: %s (%d watches at most)", strerror(-error),
              HF_WATCHES_MAX);
    return false;
}

HF_CK_INLINE bool hf_ck_begin(struct hf_ck *state)
{
    hf_ck_init(state);
    return hf_ck_start(state);
}

/* Whether the watch has recorded everything. */
HF_CK_INLINE bool hf_ck_is_complete(struct hf_ck *state)
{
    struct hf_watch_report report;
    memset(&report, 0, sizeof report);
    report.size = sizeof report;
    (void)hf_watch_report(state->watch, &report, NULL, NULL);
    if (report.dropped == 0)
        return true;
    hf_ck_say(state,
              "%s%llu calls were not recorded, because the watch had no room for them: watch a "
              "shorter block",
              state->length > 0 ? "; " : "", (unsigned long long)report.dropped);
    return false;
}

HF_CK_INLINE bool hf_ck_finish(struct hf_ck *state, bool result)
{
    hf_watch_drop(state->watch);
    return result;
}

HF_CK_INLINE bool hf_ck_matches(const char *path, const char *part)
{
    const char *slash = strrchr(path, '/');
    return part == NULL || strstr(slash != NULL ? slash + 1 : path, part) != NULL;
}

HF_CK_INLINE void hf_ck_visit(const struct hf_crossing *crossing, void *context)
{
    struct hf_ck *state = (struct hf_ck *)context;
    if (hf_ck_matches(crossing->allocated_by, state->allocated_by) &&
        hf_ck_matches(crossing->freed_by, state->freed_by))
        state->found += (size_t)crossing->count;
    hf_ck_say(state, "%s%llu (%llu bytes) allocated by %s, freed by %s",
              state->pointer == NULL ? "" : "; ", (unsigned long long)crossing->count,
              (unsigned long long)crossing->bytes, hf_ck_who(crossing->allocated_by),
              hf_ck_who(crossing->freed_by));
    state->pointer = crossing; /* not the first any more */
}

HF_CK_INLINE bool hf_ck_end_no_crossing(struct hf_ck *state)
{
    (void)hf_watch_end(state->watch);
    hf_ck_say(state, "memory crossed a boundary, expected none: ");
    (void)hf_watch_report(state->watch, NULL, hf_ck_visit, state);
    if (state->found > 0)
        return hf_ck_finish(state, false);
    state->length = 0;
    return hf_ck_finish(state, hf_ck_is_complete(state));
}

HF_CK_INLINE bool hf_ck_end_crossed(struct hf_ck *state, const char *allocated_by,
                                    const char *freed_by)
{
    (void)hf_watch_end(state->watch);
    state->allocated_by = allocated_by;
    state->freed_by = freed_by;
    hf_ck_say(state, "nothing that %s allocated was freed by %s; what crossed: ",
              allocated_by != NULL ? allocated_by : "one object",
              freed_by != NULL ? freed_by : "another");
    (void)hf_watch_report(state->watch, NULL, hf_ck_visit, state);
    if (state->found == 0) {
        hf_ck_say(state, "%s", state->pointer == NULL ? "nothing" : "");
        (void)hf_ck_is_complete(state);
    }
    return hf_ck_finish(state, state->found > 0);
}

HF_CK_INLINE bool hf_ck_begin_freed_once(struct hf_ck *state, const void *pointer,
                                         const char *expression)
{
    struct hf_owner owner;
    hf_ck_init(state);
    state->pointer = pointer;
    hf_ck_describe(state, pointer, expression, &owner);
    if (owner.kind == HF_OWNER_HEAP && owner.block != pointer) {
        hf_ck_say(state, ": no live block begins there");
        return false;
    }
    return hf_ck_start(state);
}

HF_CK_INLINE bool hf_ck_end_freed_once(struct hf_ck *state)
{
    struct hf_watch_block block;
    memset(&block, 0, sizeof block);
    block.size = sizeof block;
    (void)hf_watch_end(state->watch);
    (void)hf_watch_at(state->watch, state->pointer, &block);
    if (block.freed_unmatched == 1)
        return hf_ck_finish(state, true);
    if (block.freed_unmatched == 0)
        hf_ck_say(state, " was not freed, expected once");
    else
        hf_ck_say(state, " was freed %u times, last by %s, expected once", block.freed_unmatched,
                  hf_ck_who(block.freed_by));
    (void)hf_ck_is_complete(state);
    return hf_ck_finish(state, false);
}

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
