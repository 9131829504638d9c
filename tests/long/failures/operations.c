/* Operations of homefree's interface, for failures.py: operations NAME PLAIN-LIBRARY MODULE. Each
 * returns 0 or the negative errno that the public function returned. Nothing that was asked for
 * successfully may be lost, and every block keeps what was written to it. */
#include "rounds.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const char *plain_path, *module_path;

static int error_of(int error)
{
    return error < 0 ? error : 0;
}

static void check_block(const unsigned char *block, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        must(block[i] == value);
}

static int allocate(void)
{
    static const size_t sizes[] = {16, 200, 5000, 40000, 300000, 3 << 20, 20 << 20};
    enum { SIZES = sizeof sizes / sizeof sizes[0], EACH = 8 };
    unsigned char *blocks[SIZES][EACH];
    int result = 0;
    for (size_t s = 0; s < SIZES; s++)
        for (size_t i = 0; i < EACH; i++) {
            blocks[s][i] = i % 2 == 0 ? hf_malloc(sizes[s]) : hf_calloc(1, sizes[s]);
            if (blocks[s][i] == NULL)
                result = -errno;
            else
                memset(blocks[s][i], (int)(s * EACH + i), sizes[s]);
        }
    for (size_t s = 0; s < SIZES; s++)
        for (size_t i = 0; i < EACH; i++) {
            if (blocks[s][i] == NULL)
                continue;
            check_block(blocks[s][i], sizes[s], (unsigned char)(s * EACH + i));
            unsigned char *grown = hf_realloc(blocks[s][i], 2 * sizes[s]);
            if (grown == NULL)
                result = -errno;
            else
                blocks[s][i] = grown;
            check_block(blocks[s][i], sizes[s], (unsigned char)(s * EACH + i));
            hf_free(blocks[s][i]);
        }
    return result;
}

static void *work_in_thread(void *theirs)
{
    char *own = hf_malloc(100000);
    hf_free(theirs);
    if (own != NULL)
        memset(own, 1, 100000);
    return own;
}

static int threads(void)
{
    pthread_t threads[4];
    bool started[4];
    int result = 0;
    for (size_t i = 0; i < 4; i++) {
        void *block = hf_malloc(1000);
        int error = pthread_create(&threads[i], NULL, work_in_thread, block);
        started[i] = error == 0;
        if (error != 0) {
            hf_free(block);
            result = -error;
        }
    }
    for (size_t i = 0; i < 4; i++) {
        void *block = NULL;
        if (started[i])
            pthread_join(threads[i], &block);
        hf_free(block);
    }
    return result;
}

static int visit_route(void)
{
    struct hf_route_report report = {.size = sizeof report};
    return hf_route_report(&report, NULL, NULL);
}

/* A block of the heap that an ordinary library frees must go home once the library is routed. */
static void free_in(void *handle)
{
    void (*drop)(void *) = NULL;
    *(void **)&drop = dlsym(handle, "plain_drop");
    must(drop != NULL);
    struct hf_owner owner = {.size = sizeof owner};
    void *block = hf_malloc(100);
    if (block == NULL)
        return;
    drop(block);
    (void)hf_owner_of(block, &owner);
}

static int route(void)
{
    void *handle = dlopen(plain_path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return -ELIBACC;
    int error = hf_route();
    int reported = visit_route();
    if (error == 0)
        free_in(handle);
    dlclose(handle);
    return error_of(error != 0 ? error : reported);
}

static int adopt(void)
{
    void *handle = dlopen(plain_path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return -ELIBACC;
    void *(*make)(size_t) = NULL;
    void (*drop)(void *) = NULL;
    int error = hf_adopt(handle);
    *(void **)&make = dlsym(handle, "plain_make");
    *(void **)&drop = dlsym(handle, "plain_drop");
    must(make != NULL && drop != NULL);
    void *block = make(100);
    if (block != NULL && error == 0)
        must(hf_owns(block));
    drop(block);
    dlclose(handle);
    return error_of(error);
}

static int private_copy(void)
{
    char path[4096];
    int error = hf_private_copy(module_path, path, sizeof path);
    if (error != 0)
        return error;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL)
        dlclose(handle);
    error = hf_private_remove(path);
    must((error == 0) == (access(path, F_OK) != 0));
    if (error != 0)
        must(hf_private_remove(path) == 0 && access(path, F_OK) != 0);
    return handle != NULL ? error : -ELIBACC;
}

static int ask(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    struct hf_owner owner = {.size = sizeof owner};
    int here = 0;
    void *block = hf_malloc(100), *foreign = malloc(100);
    const void *addresses[] = {block,    foreign, &here, &plain_path, (void *)(uintptr_t)&ask,
                               (void *)8};
    int error = hf_stats(&stats);
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        int asked = hf_owner_of(addresses[i], &owner);
        error = error != 0 ? error : asked;
    }
    hf_free(block);
    free(foreign);
    return error_of(error);
}

static int record(void)
{
    int file = memfd_create("record", MFD_CLOEXEC);
    if (file < 0)
        return -errno;
    int error = hf_doctor_record(file);
    close(file);
    return error_of(error);
}

static int watch(void)
{
    struct hf_watch *watch = NULL;
    struct hf_watch_report report = {.size = sizeof report};
    int error = hf_watch_begin(&watch, 1000);
    if (error != 0)
        return error;
    void *handle = dlopen(module_path, RTLD_NOW | RTLD_LOCAL);
    hf_free(hf_malloc(100));
    if (handle != NULL)
        dlclose(handle);
    error = hf_watch_report(watch, &report, NULL, NULL);
    hf_watch_drop(watch);
    return error_of(error);
}

static int fork_child(void)
{
    char *block = hf_malloc(1000);
    int status = 0;
    if (block == NULL)
        return -errno;
    memset(block, 'f', 1000);
    pid_t child = fork();
    if (child == 0) {
        check_block((unsigned char *)block, 1000, 'f');
        hf_free(block);
        hf_free(hf_malloc(100000));
        _exit(0);
    }
    int error = child < 0 ? -errno : 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    must(status == 0);
    hf_free(block);
    return error;
}

static int strings(void)
{
    char *path = hf_realpath("/proc/self/exe", NULL), *text = NULL, *directory = hf_getcwd(NULL, 0);
    int error = path == NULL || directory == NULL ? -errno : 0;
    struct dirent **names = NULL;
    if (hf_asprintf(&text, "%d", 1) < 0) {
        error = -errno;
        text = NULL;
    }
    int count = hf_scandir("/proc/self/task", &names, NULL, NULL);
    if (count < 0)
        error = -errno;
    for (int i = 0; i < count; i++)
        hf_free(names[i]);
    if (count >= 0)
        hf_free(names);
    hf_free(text);
    hf_free(directory);
    hf_free(path);
    return error;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int (*function)(void);
    } operations[] = {
        {"allocate", allocate},    {"threads", threads}, {"route", route},   {"adopt", adopt},
        {"private", private_copy}, {"ask", ask},         {"record", record}, {"watch", watch},
        {"fork", fork_child},      {"strings", strings},
    };
    if (count != 4)
        return 2;
    plain_path = arguments[2];
    module_path = arguments[3];
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strcmp(operations[i].name, arguments[1]) == 0) {
            run_rounds(operations[i].function);
            return 0;
        }
    return 2;
}
