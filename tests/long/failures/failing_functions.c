/*
 * Preloaded by failures.py: makes the Nth call of a library function fail that libhomefree makes,
 * HOMEFREE_FAIL=function:N. For what no system call shows, or where the kernel's error would be
 * libc's. Without N, prints how many calls there were when the process ends.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char function[64];
static unsigned long at, calls;

__attribute__((constructor)) static void read_setting(void)
{
    const char *setting = getenv("HOMEFREE_FAIL");
    const char *colon = setting != NULL ? strchr(setting, ':') : NULL;
    if (colon == NULL || (size_t)(colon - setting) >= sizeof function)
        return;
    memcpy(function, setting, (size_t)(colon - setting));
    at = strtoul(colon + 1, NULL, 10);
}

__attribute__((destructor)) static void tell(void)
{
    char text[64];
    if (function[0] == '\0' || at != 0)
        return;
    int length = snprintf(text, sizeof text, "calls %lu\n", calls);
    if (write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(98);
}

static const char *object_of(const void *caller)
{
#if __GLIBC_PREREQ(2, 35)
    /* Takes no lock. */
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)caller, &found) == 0 ? found.dlfo_link_map->l_name
                                                                   : "";
#else
    Dl_info found;
    return dladdr(caller, &found) != 0 ? found.dli_fname : "";
#endif
}

static bool is_homefree(const void *caller)
{
    const char *path = object_of(caller), *slash = strrchr(path, '/');
    return strstr(slash != NULL ? slash + 1 : path, "homefree") != NULL &&
           strstr(path, "failing_functions") == NULL;
}

static bool fails(const char *name, const void *caller)
{
    /* Before the constructor too: the setting is read from the environment then. */
    if (function[0] == '\0')
        read_setting();
    if (strcmp(name, function) != 0 || !is_homefree(caller))
        return false;
    return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == at;
}

/* name, result, declared and passed parameters, what failure returns */
#define INTERPOSE(name, result, parameters, arguments, failure)    \
    __attribute__((visibility("default"))) result name parameters; \
    result name parameters                                         \
    {                                                              \
        static result(*next) parameters;                           \
        if (fails(#name, __builtin_return_address(0)))             \
            return failure;                                        \
        if (next == NULL)                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);             \
        return next arguments;                                     \
    }

/* Only a thread's first value for a key may need memory. */
__attribute__((visibility("default"))) int pthread_setspecific(pthread_key_t key, const void *value)
{
    static int (*next)(pthread_key_t key, const void *value);
    if (value != NULL && pthread_getspecific(key) == NULL &&
        fails("pthread_setspecific", __builtin_return_address(0)))
        return ENOMEM;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_setspecific");
    return next(key, value);
}

#define ERRNO(value, result) (errno = (value), (result))

INTERPOSE(pthread_key_create, int, (pthread_key_t * key, void (*end)(void *)), (key, end), EAGAIN)
INTERPOSE(__register_atfork, int,
          (void (*prepare)(void), void (*parent)(void), void (*child)(void), void *handle),
          (prepare, parent, child, handle), ENOMEM)
INTERPOSE(pthread_create, int,
          (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *),
           void *argument),
          (thread, attributes, start, argument), EAGAIN)
INTERPOSE(pthread_getattr_np, int, (pthread_t thread, pthread_attr_t *attributes),
          (thread, attributes), ENOMEM)
INTERPOSE(dladdr1, int, (const void *address, Dl_info *info, void **extra, int flags),
          (address, info, extra, flags), 0)
INTERPOSE(dlinfo, int, (void *handle, int request, void *argument), (handle, request, argument), -1)
INTERPOSE(secure_getenv, char *, (const char *name), (name), NULL)
INTERPOSE(realpath, char *, (const char *path, char *out), (path, out), ERRNO(ENOMEM, NULL))
INTERPOSE(mkdtemp, char *, (char *pattern), (pattern), ERRNO(EACCES, NULL))
INTERPOSE(fdopendir, DIR *, (int descriptor), (descriptor), ERRNO(ENOMEM, NULL))
INTERPOSE(vasprintf, int, (char **out, const char *format, va_list arguments),
          (out, format, arguments), ERRNO(ENOMEM, -1))
INTERPOSE(getdelim, ssize_t, (char **line, size_t *size, int end, FILE *file),
          (line, size, end, file), ERRNO(ENOMEM, -1))
INTERPOSE(get_current_dir_name, char *, (void), (), ERRNO(ENOMEM, NULL))
INTERPOSE(getcwd, char *, (char *out, size_t size), (out, size), ERRNO(ENOMEM, NULL))
INTERPOSE(sched_getaffinity, int, (pid_t process, size_t size, cpu_set_t *set),
          (process, size, set), ERRNO(EPERM, -1))
