/*
 * Adopts the file of a module with an allocator inside, loads what hf_adopt_file() names, and lets
 * blocks cross. test_hidden.py runs it and reads what it prints.
 *
 * usage: runner MODE FILE
 *   as-it-is   loads the file itself, which then frees what strdup() gave it
 *   file       prints the result of hf_adopt_file() and its text
 *   crossings  lets blocks cross in both directions, on one thread
 *   threads    the same on 16 threads, while others are born and end
 *   forked     the same in a child
 *   loaded     loads the file before it asks for the copy
 *   opened     lets blocks cross after a plain dlopen() of the file (HOMEFREE_CONF=adopt:all)
 *   again      loads the file itself once its copy is loaded, by its path and by a link
 *   cancelled  asks for the copy on a thread that is cancelled
 *   needed     loads what needs a library with an allocator inside
 *   names      looks up functions of the double of mimalloc in its copy
 *   sealed     writes to the slots of the copy
 */
#include "inner.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

#define must(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

static void fail(int line, const char *condition)
{
    fprintf(stderr, "runner.c:%d: %s\n", line, condition);
    _exit(1);
}

static void *load(const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    return handle;
}

static const struct inner *module_of(void *handle)
{
    const struct inner *(*function)(void);
    *(void **)&function = dlsym(handle, "inner");
    must(function != NULL);
    return function();
}

static void *load_adopted(void)
{
    char copy[PATH_MAX];
    const int result = hf_adopt_file(path, copy, sizeof copy);
    if (result < 0) {
        fprintf(stderr, "hf_adopt_file: %d: %s\n", result, copy);
        _exit(1);
    }
    must(result == 1);
    must(strcmp(copy, path) != 0);
    void *handle = load(copy);
    must(hf_adopt(handle) >= 0);
    return handle;
}

/* Whether an adopted copy is the one object from that file. */
static void must_be_alone(const char *file)
{
    struct link_map *map;
    must(dlinfo(load(file), RTLD_DI_LINKMAP, &map) == 0);
    must(strcmp(map->l_name, file) != 0);
    const char *name = strrchr(file, '/') + 1;
    while (map->l_prev != NULL)
        map = map->l_prev;
    unsigned found = 0;
    for (; map != NULL; map = map->l_next)
        found += strstr(map->l_name, name) != NULL;
    must(found == 1);
}

static void open_again(void)
{
    char link[PATH_MAX];
    void *handle = load_adopted();
    must(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == handle);
    must(snprintf(link, sizeof link, "/proc/self/root%s", path) < (int)sizeof link);
    must(load(link) == handle);
    must_be_alone(path);
}

static int result_of_cancelled;

static void *adopt_cancelled(void *copy)
{
    must(pthread_cancel(pthread_self()) == 0);
    result_of_cancelled = hf_adopt_file(path, copy, PATH_MAX);
    pthread_testcancel();
    return NULL;
}

/* What reads and writes files inside is no cancellation point. */
static void cancel(void)
{
    char copy[PATH_MAX];
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, adopt_cancelled, copy) == 0);
    must(pthread_join(thread, &result) == 0);
    must(result == PTHREAD_CANCELED && result_of_cancelled == 1);
}

static void open_user(void)
{
    char file[PATH_MAX], library[PATH_MAX];
    must(hf_adopt_file(path, file, sizeof file) == 0);
    const struct inner *(*user)(void);
    *(void **)&user = dlsym(load(file), "user");
    must(user != NULL);
    user()->free_strdup();
    must(snprintf(library, sizeof library, "%.*s/inner-c-O2.so", (int)(strrchr(path, '/') - path),
                  path) < (int)sizeof library);
    must_be_alone(library);
}

static void cross_extended(const struct inner *module)
{
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        unsigned char *block = module->give_extended(300, true, alignment);
        must(hf_owns(block) && (size_t)block % alignment == 0 && block[299] == 0);
        module->take(block);
    }
    must(module->tune() == 0);
}

static void cross_objects(const struct inner *module)
{
    must(module->grow_string());
    must(module->throws());
    void *object = module->give_object();
    must(hf_owns(object) && (size_t)object % 64 == 0);
    module->take_object(object);
}

static void cross(const struct inner *module)
{
    module->free_strdup();
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        char *block = module->give(size);
        must(hf_owns(block));
        memset(block, 1, size);
        block = module->resize(block, size * 2 + 1);
        must(hf_owns(block) && (size == 0 || block[size - 1] == 1));
        must(module->measure == NULL || module->measure(block) >= size * 2 + 1);
        hf_free(block);
        block = module->give_zeroed(size + 1, 3);
        must(hf_owns(block) && block[3 * size + 2] == 0);
        free(block);
        module->take(malloc(size));
        module->take(hf_malloc(size));
        block = module->resize(malloc(size + 1), size + 9);
        must(block != NULL);
        module->take(block);
        block = module->give_aligned(256, 256 * (size + 1));
        must(hf_owns(block) && (size_t)block % 256 == 0);
        module->take(block);
    }
    module->take(NULL);
    if (module->give_extended != NULL)
        cross_extended(module);
    if (module->grow_string != NULL)
        cross_objects(module);
}

static void *thread(void *module)
{
    for (int i = 0; i < 20; i++)
        cross(module);
    return NULL;
}

static void threads(const struct inner *module)
{
    enum { COUNT = 16, ROUNDS = 4 };
    pthread_t running[COUNT];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            must(pthread_create(&running[i], NULL, thread, (void *)(size_t)module) == 0);
        for (int i = 0; i < COUNT; i++)
            pthread_join(running[i], NULL);
    }
}

static void forked(const struct inner *module)
{
    void *block = module->give(100);
    const pid_t child = fork();
    if (child == 0) {
        module->take(block);
        cross(module);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    module->take(block);
}

/* The last segment of the copy holds the slots. */
static int find_slots(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    if (strstr(info->dlpi_name, "homefree/adopted/") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            *(void **)context = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
                                         info->dlpi_phdr[i].p_memsz - sizeof(void *));
    return 0;
}

static void write_to_slots(void)
{
    void *volatile *slot = NULL;
    dl_iterate_phdr(find_slots, (void *)&slot);
    must(slot != NULL && *slot != NULL);
    *slot = NULL;
}

int main(int count, char **arguments)
{
    char copy[PATH_MAX];
    if (count != 3)
        return 2;
    path = arguments[2];
    const char *mode = arguments[1];
    if (strcmp(mode, "as-it-is") == 0) {
        module_of(load(path))->free_strdup();
    } else if (strcmp(mode, "file") == 0) {
        const int result = hf_adopt_file(path, copy, sizeof copy);
        printf("%d %s\n", result, copy);
    } else if (strcmp(mode, "loaded") == 0) {
        load(path);
        const int result = hf_adopt_file(path, copy, sizeof copy);
        must(result == -EBUSY);
        printf("%s\n", copy);
    } else if (strcmp(mode, "opened") == 0) {
        void *handle = load(path);
        cross(module_of(handle));
        must(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == handle);
    } else if (strcmp(mode, "again") == 0) {
        open_again();
    } else if (strcmp(mode, "cancelled") == 0) {
        cancel();
    } else if (strcmp(mode, "needed") == 0) {
        open_user();
    } else if (strcmp(mode, "names") == 0) {
        void *handle = load_adopted();
        must(dlsym(handle, "mi_malloc") != NULL);
        must(dlsym(handle, "_mi_page_alloc") == NULL);
    } else {
        const struct inner *module = module_of(load_adopted());
        if (strcmp(mode, "crossings") == 0)
            cross(module);
        else if (strcmp(mode, "threads") == 0)
            threads(module);
        else if (strcmp(mode, "forked") == 0)
            forked(module);
        else if (strcmp(mode, "sealed") == 0)
            write_to_slots();
        else
            return 2;
    }
    puts("done");
    return 0;
}
