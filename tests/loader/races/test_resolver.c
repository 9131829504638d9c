/*
 * A thread that is inside the loader's lazy resolver while routing runs, held there by a page
 * fault:
 *
 * lookup  it has not found free() yet: it finds the stub, because definitions are changed first.
 * store   it has found libc's free() and stores it when the pass is over: the next occasion, a
 *         call of hf_route() with nothing new, puts the stub back.
 * fork    the same in a child process.
 *
 * usage: test-resolver lookup|store|fork LIBHOMEFREE MODULE
 */
#include "../modules/user.h"
#include "guarded.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct user *user;
static void **slot; /* the module's slot for free() */
static pthread_t main_thread;
static sem_t inside, go_on;

/* The thread waits until the pass is over; the main thread does not. */
static void hold_thread(void)
{
    if (pthread_equal(pthread_self(), main_thread))
        return;
    sem_post(&inside);
    while (sem_wait(&go_on) != 0)
        ;
}

static const ElfW(Dyn) *dynamic_entry(const struct link_map *map, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *entry = map->l_ld;
    while (entry->d_tag != tag && entry->d_tag != DT_NULL)
        entry++;
    return entry->d_tag == tag ? entry : NULL;
}

static void **find_slot(const struct link_map *map, const char *name)
{
    const ElfW(Rela) *table = (const void *)dynamic_entry(map, DT_JMPREL)->d_un.d_ptr;
    size_t count = dynamic_entry(map, DT_PLTRELSZ)->d_un.d_val / sizeof *table;
    const ElfW(Sym) *symbols = (const void *)dynamic_entry(map, DT_SYMTAB)->d_un.d_ptr;
    const char *strings = (const char *)dynamic_entry(map, DT_STRTAB)->d_un.d_ptr;
    for (size_t i = 0; i < count; i++)
        if (strcmp(strings + symbols[ELF64_R_SYM(table[i].r_info)].st_name, name) == 0)
            return (void **)(map->l_addr + table[i].r_offset);
    abort();
}

/* libc's symbol of free(). Other symbols have the same address, so it is found by its name. */
static void *find_entry(void)
{
    const struct link_map *libc = load("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    const ElfW(Sym) *symbols = (const void *)dynamic_entry(libc, DT_SYMTAB)->d_un.d_ptr;
    const char *strings = (const char *)dynamic_entry(libc, DT_STRTAB)->d_un.d_ptr;
    size_t i = 1;
    while (symbols[i].st_shndx == SHN_UNDEF || strcmp(strings + symbols[i].st_name, "free") != 0)
        i++;
    return (void *)(uintptr_t)&symbols[i];
}

static void *call_free(void *argument)
{
    (void)argument;
    user->release(NULL);
    return NULL;
}

static bool is_routed(void)
{
    return strstr(object_of(*slot), "libhomefree") != NULL;
}

static int expect(bool condition, const char *what)
{
    if (!condition)
        fprintf(stderr, "%s: %s\n", what, object_of(*slot));
    return condition ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int after_fork(int (*route)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(route() >= 0 ? expect(is_routed(), "the slot is unrouted in the child") : 2);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? EXIT_SUCCESS
                                                                           : EXIT_FAILURE;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    const char *what, *homefree_path, *module_path;
    TAKE_ARGUMENTS(&what, &homefree_path, &module_path);
    guard_against_hanging(20);
    const bool store = strcmp(what, "lookup") != 0;
    main_thread = pthread_self();
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    struct link_map *map = load(module_path, RTLD_LAZY | RTLD_LOCAL);
    user = ((user_function *)symbol_of(map, "user"))();
    slot = find_slot(map, "free");
    if (object_of(*slot)[0] == '\0' || strcmp(object_of(*slot), object_of(user)) != 0)
        return expect(false, "the slot is resolved before the first call");
    if (store)
        guard(slot, sizeof *slot, PROT_READ, PROT_READ | PROT_WRITE, hold_thread);
    else
        guard(find_entry(), sizeof(ElfW(Sym)), PROT_NONE, PROT_READ, hold_thread);
    if (pthread_create(&thread, NULL, call_free, NULL) != 0)
        return 2;
    while (sem_wait(&inside) != 0)
        ;
    void *handle = load(homefree_path, RTLD_NOW);
    int (*route)(void) = (int (*)(void))symbol_of(handle, "hf_route");
    sem_post(&go_on);
    pthread_join(thread, NULL);
    if (!store)
        return expect(is_routed(), "the slot was resolved to the unrouted function");
    if (is_routed())
        return expect(false, "the thread stored nothing, so there was no race");
    if (strcmp(what, "fork") == 0)
        return after_fork(route);
    if (route() < 0)
        return expect(false, "hf_route() failed");
    return expect(is_routed(), "the slot is still unrouted");
}
