/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/check/support.h - what the assertions of homefree/check.h are made of.
 *
 * Included by homefree/check.h, which describes the choice of the framework. Everything declared
 * here is internal.
 */
#ifndef HOMEFREE_CHECK_SUPPORT_H
#define HOMEFREE_CHECK_SUPPORT_H

#include <homefree/homefree.h>

#if defined(HF_CK_FAIL) || defined(HF_CK_FRAMEWORK_CHECK) || defined(HF_CK_FRAMEWORK_GTEST) || \
    defined(HF_CK_FRAMEWORK_CATCH2) || defined(HF_CK_FRAMEWORK_NONE)
/* chosen */
#elif defined(GTEST_TEST)
#    define HF_CK_FRAMEWORK_GTEST
#elif defined(CATCH_VERSION_MAJOR) || defined(CATCH_TEST_MACROS_HPP_INCLUDED)
#    define HF_CK_FRAMEWORK_CATCH2
#else
#    define HF_CK_FRAMEWORK_CHECK
#endif

#if defined(HF_CK_FRAMEWORK_CHECK) && !defined(HF_CK_FAIL)
#    include <check.h>
#endif
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wold-style-cast"
#    pragma GCC diagnostic ignored "-Wshadow"
#    pragma GCC diagnostic ignored "-Wmissing-field-initializers"
extern "C" {
#endif

#ifndef HF_CK_SECONDS
#    define HF_CK_SECONDS 30
#endif

#ifdef HF_CK_FAIL
/* the program's own */
#elif defined(HF_CK_FRAMEWORK_CHECK)
#    define HF_CK_EXPECT(condition, text) ck_assert_msg((condition), "%s", (text))
#elif defined(HF_CK_FRAMEWORK_GTEST)
#    define HF_CK_FAIL(message) GTEST_FAIL() << (message)
#elif defined(HF_CK_FRAMEWORK_CATCH2)
#    ifdef CATCH_FAIL
#        define HF_CK_FAIL(message) CATCH_FAIL(message)
#    else
#        define HF_CK_FAIL(message) FAIL(message)
#    endif
#else
#    define HF_CK_FAIL(message) hf_ck_abort(__FILE__, __LINE__, __func__, (message))
#endif
#ifndef HF_CK_EXPECT
#    define HF_CK_EXPECT(condition, text) \
        do {                              \
            if (!(condition))             \
                HF_CK_FAIL(text);         \
        } while (0)
#endif

#define HF_CK_INLINE       static inline __attribute__((unused))
#define HF_CK_CLEANUP(end) __attribute__((cleanup(end)))

#define HF_CK_AROUND(begin, end, ...)                     \
    do {                                                  \
        struct hf_ck hf_ck_ HF_CK_CLEANUP(hf_ck_abandon); \
        bool hf_ck_holds_ = (begin);                      \
        if (hf_ck_holds_) {                               \
            {                                             \
                __VA_ARGS__;                              \
            }                                             \
            hf_ck_holds_ = (end);                         \
        }                                                 \
        HF_CK_EXPECT(hf_ck_holds_, hf_ck_.text);          \
    } while (0)

#define HF_CK_WALK(next, ...)                                        \
    do {                                                             \
        struct hf_ck_walk hf_ck_walk_ HF_CK_CLEANUP(hf_ck_stray);    \
        hf_ck_walk_begin(&hf_ck_walk_);                              \
        while (next(&hf_ck_walk_)) {                                 \
            {                                                        \
                __VA_ARGS__;                                         \
            }                                                        \
            hf_ck_survived(&hf_ck_walk_);                            \
        }                                                            \
        HF_CK_EXPECT(hf_ck_walk_.text[0] == '\0', hf_ck_walk_.text); \
    } while (0)

HF_CK_INLINE __attribute__((noreturn)) void hf_ck_abort(const char *file, int line,
                                                        const char *function, const char *message)
{
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, function, message);
    abort();
}

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
    case HF_OWNER_PINNED:
        return "HF_OWNER_PINNED";
    case HF_OWNER_DEVICE:
        return "HF_OWNER_DEVICE";
    case HF_OWNER_CUDA:
        return "HF_OWNER_CUDA";
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
    state->watch = NULL;
    return result;
}

/* The block of code was left before its end. */
HF_CK_INLINE void hf_ck_abandon(struct hf_ck *state)
{
    hf_watch_drop(state->watch);
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

HF_CK_INLINE struct hf_watch_block hf_ck_freed(struct hf_ck *state)
{
    struct hf_watch_block block;
    memset(&block, 0, sizeof block);
    block.size = sizeof block;
    (void)hf_watch_end(state->watch);
    (void)hf_watch_at(state->watch, state->pointer, &block);
    return block;
}

HF_CK_INLINE bool hf_ck_not_once(struct hf_ck *state, const struct hf_watch_block *block)
{
    if (block->freed_unmatched == 0)
        hf_ck_say(state, " was not freed, expected once");
    else
        hf_ck_say(state, " was freed %u times, last by %s, expected once", block->freed_unmatched,
                  hf_ck_who(block->freed_by));
    (void)hf_ck_is_complete(state);
    return hf_ck_finish(state, false);
}

HF_CK_INLINE bool hf_ck_end_freed_once(struct hf_ck *state)
{
    struct hf_watch_block block = hf_ck_freed(state);
    return block.freed_unmatched == 1 ? hf_ck_finish(state, true) : hf_ck_not_once(state, &block);
}

HF_CK_INLINE bool hf_ck_end_freed_by(struct hf_ck *state, const char *freed_by)
{
    struct hf_watch_block block = hf_ck_freed(state);
    if (block.freed_unmatched != 1)
        return hf_ck_not_once(state, &block);
    if (hf_ck_matches(block.freed_by, freed_by))
        return hf_ck_finish(state, true);
    hf_ck_say(state, " was freed by %s, expected %s", hf_ck_who(block.freed_by), freed_by);
    return hf_ck_finish(state, false);
}

HF_CK_INLINE void hf_ck_visit_left(const struct hf_left *left, void *context)
{
    struct hf_ck *state = (struct hf_ck *)context;
    if (!hf_ck_matches(left->allocated_by, state->allocated_by))
        return;
    hf_ck_say(state, "%s%llu (%llu bytes) allocated by %s", state->found > 0 ? "; " : "",
              (unsigned long long)left->count, (unsigned long long)left->bytes,
              hf_ck_who(left->allocated_by));
    state->found += (size_t)left->count;
}

HF_CK_INLINE bool hf_ck_end_balanced(struct hf_ck *state, const char *allocated_by)
{
    (void)hf_watch_end(state->watch);
    state->allocated_by = allocated_by;
    hf_ck_say(state, "blocks are left, expected none: ");
    (void)hf_watch_left(state->watch, hf_ck_visit_left, state);
    if (state->found > 0)
        return hf_ck_finish(state, false);
    state->length = 0;
    return hf_ck_finish(state, hf_ck_is_complete(state));
}

/* ---- failures of allocation ---- */

HF_CK_INLINE bool hf_ck_can_fail(struct hf_ck *state, int error)
{
    hf_ck_init(state);
    if (error != 0)
        hf_ck_say(state, "calls cannot be made to fail: %s (%d threads at most)", strerror(-error),
                  HF_FAIL_THREADS_MAX);
    return error == 0;
}

HF_CK_INLINE struct hf_fail_counts hf_ck_counts(void)
{
    struct hf_fail_counts counts;
    memset(&counts, 0, sizeof counts);
    counts.size = sizeof counts;
    (void)hf_fail_count(0, &counts);
    return counts;
}

/* What a child tells its parent. */
struct hf_ck_told {
    uint64_t failed;
    bool survived, left;
};

struct hf_ck_walk {
    uint64_t call; /* the one that fails in this run */
    bool done, counting, child;
    int to_parent; /* in a child: a pipe */
    struct hf_ck_told told;
    char text[512]; /* why it failed */
};

HF_CK_INLINE void hf_ck_walk_begin(struct hf_ck_walk *walk)
{
    memset(walk, 0, sizeof *walk);
}

HF_CK_INLINE __attribute__((format(printf, 2, 3))) bool hf_ck_stop(struct hf_ck_walk *walk,
                                                                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(walk->text, sizeof walk->text, format, arguments);
    va_end(arguments);
    return false;
}

/* Begins the next run. */
HF_CK_INLINE bool hf_ck_count(struct hf_ck_walk *walk)
{
    int error = hf_fail_at(walk->call, 0);
    walk->counting = error == 0;
    return error == 0 ? true
                      : hf_ck_stop(walk, "calls cannot be made to fail: %s (%d threads at most)",
                                   strerror(-error), HF_FAIL_THREADS_MAX);
}

/* Ends a child. */
HF_CK_INLINE __attribute__((noreturn)) void hf_ck_tell(const struct hf_ck_walk *walk)
{
    _exit(write(walk->to_parent, &walk->told, sizeof walk->told) == (ssize_t)sizeof walk->told ? 0
                                                                                               : 1);
}

/* The run has reached the end of the block of code. */
HF_CK_INLINE void hf_ck_survived(struct hf_ck_walk *walk)
{
    struct hf_fail_counts counts = hf_ck_counts();
    walk->done = counts.failed == 0;
    if (!walk->child)
        return;
    walk->told.failed = counts.failed;
    walk->told.survived = true;
    hf_ck_tell(walk);
}

/* Also if the block of code is left before its end. */
HF_CK_INLINE void hf_ck_stray(struct hf_ck_walk *walk)
{
    if (walk->child) {
        walk->told.left = true;
        hf_ck_tell(walk);
    }
    if (walk->counting)
        (void)hf_fail_end(0, NULL);
}

HF_CK_INLINE bool hf_ck_next_here(struct hf_ck_walk *walk)
{
    walk->call++;
    return !walk->done && hf_ck_count(walk);
}

/* Whether the child that ended so survived. */
HF_CK_INLINE bool hf_ck_judge(struct hf_ck_walk *walk, int status)
{
    const unsigned long long call = (unsigned long long)walk->call;
    if (walk->told.survived)
        return true;
    if (walk->told.left)
        return hf_ck_stop(walk,
                          "call %llu for memory failed, and the code was left by return, break or "
                          "an exception",
                          call);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return hf_ck_stop(walk, "call %llu for memory failed, and the code hung", call);
    if (WIFSIGNALED(status))
        return hf_ck_stop(walk, "call %llu for memory failed, and the code died of signal %d", call,
                          WTERMSIG(status));
    return hf_ck_stop(walk, "call %llu for memory failed, and the code exited with status %d", call,
                      WEXITSTATUS(status));
}

/* One run in a child; true in the child. */
HF_CK_INLINE bool hf_ck_run_child(struct hf_ck_walk *walk)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return hf_ck_stop(walk, "no pipe to a child: %s", strerror(errno));
    memset(&walk->told, 0, sizeof walk->told);
    pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        walk->child = true;
        walk->to_parent = ends[1];
        (void)alarm(HF_CK_SECONDS);
        if (hf_ck_count(walk))
            return true;
        _exit(1);
    }
    (void)close(ends[1]);
    if (child < 0)
        (void)hf_ck_stop(walk, "no child for the next run: %s", strerror(errno));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (read(ends[0], &walk->told, sizeof walk->told) != (ssize_t)sizeof walk->told)
        memset(&walk->told, 0, sizeof walk->told);
    (void)close(ends[0]);
    if (child > 0)
        walk->done = !hf_ck_judge(walk, status) || walk->told.failed == 0;
    return false;
}

HF_CK_INLINE bool hf_ck_next_child(struct hf_ck_walk *walk)
{
    while (!walk->done && walk->text[0] == '\0') {
        walk->call++;
        if (hf_ck_run_child(walk))
            return true;
    }
    return false;
}

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
