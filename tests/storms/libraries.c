/*
 * Five hundred libraries, which eight threads load and unload while others free: more objects, and
 * more of them at once, than any other test has. Each is a file of its own, so the dynamic linker
 * takes none for another. A thread keeps the last ones that it loaded open.
 */
#include "storms.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIBRARIES = 500, LOADERS = 8, OTHERS = 4, KEPT = 40 };

static char directory[] = "/tmp/homefree-storm-XXXXXX";
static atomic_uint next;

static void path_of(char *path, size_t size, unsigned number)
{
    snprintf(path, size, "%s/library-%03u.so", directory, number);
}

static void copy(const char *from, const char *to)
{
    struct stat facts;
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (in < 0 || out < 0 || fstat(in, &facts) != 0)
        storm_failed(to, "cannot be made");
    char *bytes = malloc((size_t)facts.st_size);
    STORM_MUST(bytes != NULL);
    STORM_MUST(read(in, bytes, (size_t)facts.st_size) == facts.st_size);
    STORM_MUST(write(out, bytes, (size_t)facts.st_size) == facts.st_size);
    free(bytes);
    close(in);
    close(out);
}

static void work(unsigned number)
{
    static _Thread_local void *kept[KEPT];
    static _Thread_local unsigned turn;
    static _Thread_local uint64_t random;
    if (random == 0)
        random = number * UINT64_C(0x9e3779b97f4a7c15);
    if (number > LOADERS) {
        storm_exchange(&random, NULL);
        return;
    }
    char path[100];
    path_of(path, sizeof path, atomic_fetch_add(&next, 1) % LIBRARIES);
    void **place = &kept[turn++ % KEPT];
    if (*place != NULL)
        STORM_MUST(dlclose(*place) == 0);
    int mode = storm_random(&random) % 2 == 0 ? RTLD_LAZY : RTLD_NOW;
    if (storm_random(&random) % 4 == 0)
        mode |= RTLD_DEEPBIND;
    *place = dlopen(path, mode | RTLD_LOCAL);
    if (*place == NULL)
        storm_failed(path, dlerror());
    figures.libraries++;
    user_function *function = (user_function *)dlsym(*place, "user");
    STORM_MUST(function != NULL);
    for (int i = 0; i < 5; i++)
        storm_exchange(&random, function());
    for (int i = 0; i < KEPT && storm_over; i++)
        if (kept[i] != NULL)
            dlclose(kept[i]);
}

void storm_libraries(void)
{
    char path[100];
    if (mkdtemp(directory) == NULL)
        storm_failed(directory, "cannot be made");
    for (unsigned i = 0; i < LIBRARIES; i++) {
        path_of(path, sizeof path, i);
        copy(modules[i % module_count], path);
    }
    storm_threads(LOADERS + OTHERS, work);
    for (unsigned i = 0; i < LIBRARIES; i++) {
        path_of(path, sizeof path, i);
        unlink(path);
    }
    rmdir(directory);
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
}
