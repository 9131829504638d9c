/*
 * The host of the matrix: loads two sides, and passes blocks from each to the other by every pair
 * of functions under every condition. Each cell runs in a forked process, whose death is its
 * result.
 *
 * usage: runner MODULE OTHER SCOPE GIVES WITHOUT DOUBTFUL [PART OF SEED | CELL]
 *   MODULE  the side that is linked with homefree
 *   OTHER   the side with another allocator
 *   SCOPE   how OTHER is loaded: local, global, deepbind, namespace (dlmopen)
 *   GIVES   which side gives: both, other (calls of OTHER's own free() are out of reach), module
 *           (OTHER's blocks cannot be told from libc's)
 *   WITHOUT pairs of functions to leave out where OTHER gives, "new/delete,new[]/delete[]"
 *   DOUBTFUL  pairs to leave out there if they fail within OTHER, before homefree is loaded
 *   PART OF SEED  runs PART cells of every OF, chosen by their names and SEED
 *   CELL    runs the one of that name
 *
 * Prints a line for each cell that did not end well, "CELL: what happened", and at the end
 * "N cells, M failed, L pairs left out". Exit status: 0 all passed, 1 some failed, 3 could not run.
 */
#define _GNU_SOURCE
#include "../support/signal_name.h"
#include "side.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZES = 7, ROUNDS = 2, SECONDS = 20, FAILED = 9, COULD_NOT = 3, LISTED = 1000 };
static const size_t sizes[SIZES] = {1, 24, 100, 1000, 5000, 70000, 300000};

struct cell {
    const struct side_allocate *allocate;
    const struct side_release *release;
    void *giver; /* of dlopen() */
    void *blocks[ROUNDS][SIZES];
};

static const char *module_path, *other_path, *scope;

static _Noreturn void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    _exit(FAILED);
}

/* ---- blocks ---- */

static unsigned char byte_at(size_t position)
{
    return (unsigned char)(position * 31 + 7);
}

static bool intact(const void *ptr, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)ptr;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte_at(i))
            return false;
    return true;
}

static void give(struct cell *cell)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SIZES; i++) {
            unsigned char *block = cell->allocate->call(sizes[i]);
            if (block == NULL)
                fail("the allocation failed");
            for (size_t k = 0; k < sizes[i]; k++)
                block[k] = byte_at(k);
            cell->blocks[round][i] = block;
        }
}

static void take(struct cell *cell)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SIZES; i++) {
            if (!intact(cell->blocks[round][i], sizes[i]))
                fail("a block arrived damaged");
            if (!cell->release->call(cell->blocks[round][i], sizes[i], intact))
                fail("a block was damaged, or too small, when it was resized");
        }
}

/* ---- loading ---- */

static void *load(const char *path, const char *how)
{
    void *handle;
    if (strcmp(how, "namespace") == 0)
        handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    else
        handle = dlopen(path, RTLD_LAZY | (strcmp(how, "global") == 0     ? RTLD_GLOBAL
                                           : strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND
                                                                          : RTLD_LOCAL));
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(COULD_NOT);
    }
    return handle;
}

static const struct side *side_of(void *handle)
{
    const struct side *(*get)(void) =
        (const struct side *(*)(void))(uintptr_t)dlsym(handle, "matrix_side");
    if (get == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(COULD_NOT);
    }
    return get();
}

/* ---- conditions ---- */

static struct cell *current; /* for those that call back without an argument */

static void take_current(void)
{
    take(current);
}

static void *give_in_thread(void *argument)
{
    give(argument);
    return NULL;
}

static void *take_in_thread(void *argument)
{
    take(argument);
    return NULL;
}

static void in_thread(void *(*function)(void *), struct cell *cell)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, cell) != 0 || pthread_join(thread, NULL) != 0)
        fail("no thread could be made");
}

static void same_thread(struct cell *cell)
{
    give(cell);
    take(cell);
}

static void other_thread(struct cell *cell)
{
    give(cell);
    in_thread(take_in_thread, cell);
}

static void dead_thread(struct cell *cell)
{
    in_thread(give_in_thread, cell);
    take(cell);
}

static void forked_child(struct cell *cell)
{
    give(cell);
    pid_t child = fork();
    if (child == 0) {
        take(cell);
        exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail("no child could be made");
    if (status != 0)
        fail("the child did not end well");
    take(cell);
}

static pthread_key_t at_thread_end;

static void take_at_thread_end(void *argument)
{
    take(argument);
}

static void *set_key(void *argument)
{
    give(argument);
    if (pthread_setspecific(at_thread_end, argument) != 0)
        fail("no thread-specific data");
    return NULL;
}

static void thread_end(struct cell *cell)
{
    if (pthread_key_create(&at_thread_end, take_at_thread_end) != 0)
        fail("no key");
    in_thread(set_key, cell);
}

static void at_exit(struct cell *cell)
{
    give(cell);
    current = cell;
    if (atexit(take_current) != 0)
        fail("no atexit");
}

/* The giver's destructor calls the taker. */
static void giver_unloads(struct cell *cell)
{
    give(cell);
    current = cell;
    side_of(cell->giver)->at_unload(take_current);
    dlclose(cell->giver);
}

/* The giver is gone when the taker frees, or stays because its allocator has to. */
static void giver_unloaded(struct cell *cell)
{
    give(cell);
    dlclose(cell->giver);
    take(cell);
}

static const struct {
    const char *name;
    void (*run)(struct cell *cell);
} conditions[] = {
    {"same-thread", same_thread},
    {"other-thread", other_thread},
    {"dead-thread", dead_thread},
    {"forked-child", forked_child},
    {"thread-end", thread_end},
    {"at-exit", at_exit},
    {"giver-unloads", giver_unloads},
    {"giver-unloaded", giver_unloaded},
    {"heap-late", NULL}, /* OTHER gives before MODULE, and homefree with it, is loaded */
};
enum { CONDITIONS = sizeof conditions / sizeof conditions[0] };

/* ---- cells ---- */

static int errors; /* what a cell printed */
static unsigned long ran, failures, left_out;
static char without[LISTED]; /* pairs of functions, "allocate/release,…" */
static const char *only;
static unsigned long part = 1, of = 1;
static const char *seed = "";

static bool chosen(const char *name)
{
    if (only != NULL)
        return strcmp(only, name) == 0;
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *text = seed; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    for (const char *text = name; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return (hash >> 20) % of < part;
}

static void show(const char *name, int status)
{
    char text[400];
    ssize_t length = pread(errors, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("%s: still ran after %d s. %s\n", name, SECONDS, text);
    else if (WIFSIGNALED(status))
        printf("%s: SIG%s. %s\n", name, signal_name(WTERMSIG(status)), text);
    else
        printf("%s: exit status %d. %s\n", name, WEXITSTATUS(status), text);
}

static void run_here(struct cell *cell, int condition)
{
    if (conditions[condition].run != NULL) {
        conditions[condition].run(cell);
        return;
    }
    give(cell);
    const char *wanted = cell->release->name;
    enum side_group group = cell->release->group;
    cell->release = side_of(load(module_path, "local"))->releases;
    while (cell->release->group != group || strcmp(cell->release->name, wanted) != 0)
        if ((++cell->release)->name == NULL)
            exit(COULD_NOT);
    take(cell);
}

/* Runs a cell in a process of its own. Returns how that ended, as waitpid() tells it. */
static int run_apart(struct cell *cell, int condition)
{
    if (ftruncate(errors, 0) != 0 || lseek(errors, 0, SEEK_SET) != 0)
        exit(COULD_NOT);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        dup2(errors, 2);
        run_here(cell, condition);
        exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(COULD_NOT);
    return status;
}

static void run(const char *name, struct cell *cell, int condition)
{
    if (!chosen(name))
        return;
    int status = run_apart(cell, condition);
    ran++;
    if (status != 0) {
        failures++;
        show(name, status);
    }
}

static bool is_in(const char *list, const char *pair)
{
    const size_t length = strlen(pair);
    for (const char *found = list; (found = strstr(found, pair)) != NULL; found += length)
        if ((found == list || found[-1] == ',') && strchr(",", found[length]) != NULL)
            return true;
    return false;
}

/* Adds the pairs to `without` that do not fit together in OTHER alone. Where homefree is preloaded,
 * it is not alone: what fails there is homefree's fault. */
static void leave_out_failing(const struct side *other, const char *doubtful)
{
    if (dlsym(RTLD_DEFAULT, "hf_owns") != NULL)
        return;
    for (const struct side_allocate *allocate = other->allocates; allocate->name != NULL;
         allocate++)
        for (const struct side_release *release = other->releases; release->name != NULL;
             release++) {
            char pair[100];
            snprintf(pair, sizeof pair, "%s/%s", allocate->name, release->name);
            struct cell cell = {allocate, release, .giver = NULL};
            if (!is_in(doubtful, pair) || run_apart(&cell, 0) == 0)
                continue;
            size_t length = strlen(without);
            snprintf(without + length, sizeof without - length, "%s%s", length != 0 ? "," : "",
                     pair);
        }
}

static void run_pairs(const char *direction, const struct side *giver, void *giver_handle,
                      const struct side *taker, bool late, bool other_gives)
{
    for (const struct side_allocate *allocate = giver->allocates; allocate->name != NULL;
         allocate++)
        for (const struct side_release *release = taker->releases; release->name != NULL;
             release++) {
            if (allocate->group != release->group)
                continue;
            char pair[100];
            snprintf(pair, sizeof pair, "%s/%s", allocate->name, release->name);
            if (other_gives && is_in(without, pair)) {
                left_out++;
                continue;
            }
            for (int condition = 0; condition < CONDITIONS; condition++) {
                if ((conditions[condition].run == NULL) != late)
                    continue;
                char name[200];
                snprintf(name, sizeof name, "%s/%s/%s", direction, pair,
                         conditions[condition].name);
                struct cell cell = {allocate, release, .giver = giver_handle};
                run(name, &cell, condition);
            }
        }
}

int main(int count, char **arguments)
{
    if (count != 7 && count != 8 && count != 10) {
        fputs("usage: runner MODULE OTHER SCOPE GIVES WITHOUT DOUBTFUL [PART OF SEED | CELL]\n",
              stderr);
        return COULD_NOT;
    }
    module_path = arguments[1];
    other_path = arguments[2];
    scope = arguments[3];
    bool other_gives = strcmp(arguments[4], "module") != 0;
    bool module_gives = strcmp(arguments[4], "other") != 0;
    snprintf(without, sizeof without, "%s", arguments[5]);
    if (count == 8)
        only = arguments[7];
    if (count == 10) {
        part = strtoul(arguments[7], NULL, 10);
        of = strtoul(arguments[8], NULL, 10);
        seed = arguments[9];
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    errors = memfd_create("errors", 0);
    if (errors < 0 || of == 0)
        return COULD_NOT;

    void *other_handle = load(other_path, scope);
    const struct side *other = side_of(other_handle);
    leave_out_failing(other, arguments[6]);
    /* MODULE is not there yet: its functions that free have the names that OTHER's have. */
    if (other_gives)
        run_pairs("other-to-module", other, other_handle, other, true, true);
    void *module_handle = load(module_path, "local");
    const struct side *module = side_of(module_handle);
    if (other_gives)
        run_pairs("other-to-module", other, other_handle, module, false, true);
    if (module_gives)
        run_pairs("module-to-other", module, module_handle, other, false, false);
    printf("%lu cells, %lu failed, %lu pairs left out\n", ran, failures, left_out);
    return failures == 0 ? 0 : 1;
}
