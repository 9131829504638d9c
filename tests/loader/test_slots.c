/*
 * Every kind of slot that compilers and linkers make, and the program's own: a heap pointer that
 * goes through it comes home, a libc pointer still goes to libc, and the page it lies in is as it
 * was.
 *
 * usage: test-slots before|after LIBHOMEFREE MODULE…
 * "before": the modules are loaded first, and libhomefree then finds them. "after": libhomefree is
 * loaded first.
 * This program does not link libhomefree, so that it decides the order itself.
 */
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    void *(*malloc)(size_t size);
    bool (*owns)(const void *ptr);
    int (*owner_of)(const void *ptr, struct hf_owner *out);
    int (*route)(void);
    int (*route_report)(struct hf_route_report *out, hf_route_visitor *visit, void *context);
} hf;

enum { MODULES_MAX = 128, LARGE = 1 << 20 };
static const char *paths[MODULES_MAX];
static const struct user *users[MODULES_MAX];
static int user_count;

static int own_calls;

/* The program stores this function in a module's table. */
static void own_release(void *ptr)
{
    (void)ptr;
    own_calls++;
}

static pthread_barrier_t never;

static void *wait_for_ever(void *argument)
{
    (void)argument;
    pthread_barrier_wait(&never);
    return NULL;
}

static void load_homefree(const char *path)
{
    void *handle = load(path, RTLD_NOW);
    hf.malloc = (void *(*)(size_t))symbol_of(handle, "hf_malloc");
    hf.owns = (bool (*)(const void *))symbol_of(handle, "hf_owns");
    hf.owner_of = (int (*)(const void *, struct hf_owner *))symbol_of(handle, "hf_owner_of");
    hf.route = (int (*)(void))symbol_of(handle, "hf_route");
    hf.route_report = (int (*)(struct hf_route_report *, hf_route_visitor *, void *))symbol_of(
        handle, "hf_route_report");
}

static void load_modules(void)
{
    for (int i = 0; i < user_count; i++) {
        users[i] = load_user(paths[i], RTLD_LAZY | RTLD_LOCAL);
        users[i]->table->for_program = own_release;
    }
}

/* Asserts that a block comes back to the heap: a large one is unmapped, a small one is the next
 * that the same thread gets. */
static void assert_goes_home(void (*release)(void *ptr), const char *how, const char *path)
{
    void *large = hf.malloc(LARGE), *small = hf.malloc(48);
    ck_assert(hf.owns(large) && hf.owns(small));
    release(large);
    struct hf_owner owner = {.size = sizeof owner};
    ck_assert_int_eq(hf.owner_of(large, &owner), 0);
    ck_assert_msg(owner.block == NULL, "%s of %s: the block is still there", how, path);
    release(small);
    void *again = hf.malloc(48);
    ck_assert_msg(again == small, "%s of %s: the small block did not come back", how, path);
    release(again);
    release(NULL);
}

static void check_user(const struct user *user, const char *path)
{
    assert_goes_home(user->release, "free", path);
    assert_goes_home(user->constant->release, "a constant pointer to free", path);
    assert_goes_home(user->table->release, "a pointer to free", path);

    void *(*const resizes[])(void *, size_t) = {user->resize, user->constant->resize,
                                                user->table->resize};
    for (size_t i = 0; i < sizeof resizes / sizeof resizes[0]; i++) {
        char *block = hf.malloc(100);
        strcpy(block, "content");
        block = resizes[i](block, LARGE);
        ck_assert_msg(hf.owns(block), "%s: realloc", path);
        ck_assert_str_eq(block, "content");
        block = user->resize_array(block, 3, LARGE);
        ck_assert_msg(hf.owns(block), "%s: reallocarray", path);
        ck_assert_str_eq(block, "content");
        ck_assert_uint_ge(user->measure(block), 3 * LARGE);
        ck_assert_uint_lt(user->measure(block), 5 * LARGE);
        ck_assert_ptr_null(resizes[i](block, 0));
        struct hf_owner owner = {.size = sizeof owner};
        hf.owner_of(block, &owner);
        ck_assert_ptr_null(owner.block);
    }

    /* A block of libc's. */
    char *theirs = user->acquire(100);
    ck_assert(!hf.owns(theirs));
    ck_assert_uint_ge(user->measure(theirs), 100);
    strcpy(theirs, "content");
    theirs = user->resize_array(user->resize(theirs, 1000), 100, 100);
    ck_assert(!hf.owns(theirs));
    ck_assert_str_eq(theirs, "content");
    user->release(theirs);
    user->constant->release(user->acquire(10));
    user->table->release(user->acquire(LARGE));
    theirs = user->resize(NULL, 10);
    ck_assert(!hf.owns(theirs));
    user->release(theirs);
}

START_TEST(every_slot_of_every_module)
{
    for (int i = 0; i < user_count; i++)
        check_user(users[i], paths[i]);
}
END_TEST

START_TEST(again_when_all_are_bound)
{
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < user_count; i++)
            check_user(users[i], paths[i]);
}
END_TEST

START_TEST(what_a_program_changed_is_left_alone)
{
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < user_count; i++) {
            int before = own_calls, counted = *users[i]->counted;
            ck_assert_msg(users[i]->table->for_program == own_release, "%s: it points to %s",
                          paths[i], object_of((void *)users[i]->table->for_program));
            users[i]->table->for_program(NULL);
            ck_assert_int_eq(own_calls, before + 1);
            ck_assert_msg(users[i]->table->changed == users[i]->count, "%s: it points to %s",
                          paths[i], object_of((void *)users[i]->table->changed));
            users[i]->table->changed(NULL);
            ck_assert_int_eq(*users[i]->counted, counted + 1);
        }
        ck_assert_int_ge(hf.route(), 0);
    }
}
END_TEST

static void release_directly(void *ptr)
{
    free(ptr);
}

START_TEST(the_programs_own_calls)
{
    /* In a program at a fixed address, this is the address of its own PLT entry. */
    void (*volatile pointer)(void *) = free;
    void *(*volatile resize)(void *, size_t) = realloc;
    assert_goes_home(release_directly, "free", "the program");
    assert_goes_home(pointer, "a pointer to free", "the program");
    char *block = hf.malloc(10);
    strcpy(block, "content");
    block = realloc(block, 1000);
    ck_assert(hf.owns(block));
    block = resize(block, LARGE);
    ck_assert(hf.owns(block));
    ck_assert_str_eq(block, "content");
    ck_assert_uint_ge(malloc_usable_size(block), LARGE);
    free(block);
    block = malloc(10);
    ck_assert(!hf.owns(block));
    pointer(realloc(block, 1000));
}
END_TEST

START_TEST(pages_are_protected_again)
{
    assert_relro_is_read_only();
    ck_assert_int_ge(hf.route(), 0);
    assert_relro_is_read_only();
}
END_TEST

struct seen {
    const char *path;
    int changed, refused;
};

static void look(const struct hf_route_entry *entry, void *context)
{
    struct seen *seen = context;
    if (strcmp(entry->object, seen->path) != 0)
        return;
    if (entry->state == HF_ROUTE_CHANGED)
        seen->changed++;
    else
        seen->refused++;
}

START_TEST(the_report_knows_every_module)
{
    for (int i = 0; i < user_count; i++) {
        struct seen seen = {.path = paths[i]};
        ck_assert_int_eq(hf.route_report(NULL, look, &seen), 0);
        /* At least one slot each for free, realloc, reallocarray and malloc_usable_size, and the
         * six initialised pointers that nobody changed. */
        ck_assert_msg(seen.changed >= 10, "%s: only %d slots changed", paths[i], seen.changed);
    }
}
END_TEST

int main(int count, char **arguments)
{
    if (count < 5 || count - 4 > MODULES_MAX) {
        fprintf(stderr, "usage: %s before|after alone|threads LIBHOMEFREE MODULE...\n",
                arguments[0]);
        return 2;
    }
    guard_against_hanging(100);
    pthread_t thread;
    pthread_barrier_init(&never, NULL, 2);
    if (strcmp(arguments[2], "threads") == 0 &&
        pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 2;
    for (int i = 4; i < count; i++)
        paths[user_count++] = arguments[i];
    if (strcmp(arguments[1], "before") == 0) {
        load_modules();
        load_homefree(arguments[3]);
    } else {
        load_homefree(arguments[3]);
        load_modules();
    }
    return RUN_TESTS("slots", every_slot_of_every_module, again_when_all_are_bound,
                     what_a_program_changed_is_left_alone, the_programs_own_calls,
                     pages_are_protected_again, the_report_knows_every_module);
}
