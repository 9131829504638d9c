/* Preloaded: defines functions that the heap needs. Each call looks for the function behind it and
 * allocates, as preloaded libraries do that change what a process sees. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void *behind(const char *name, int *depth)
{
    if (++*depth == 1) {
        (void)dlsym(RTLD_NEXT, "a name that nobody defines");
        free(malloc(100));
    }
    void *found = dlsym(RTLD_NEXT, name);
    --*depth;
    return found;
}

#define INTERPOSE(result, name, parameters, arguments)                                     \
    __attribute__((visibility("default"))) result name parameters                          \
    {                                                                                      \
        static __thread int depth;                                                         \
        result(*next) parameters = (result(*) parameters)(uintptr_t)behind(#name, &depth); \
        return next arguments;                                                             \
    }

INTERPOSE(int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time))
INTERPOSE(pid_t, getpid, (void), ())
INTERPOSE(long, sysconf, (int name), (name))
INTERPOSE(int, madvise, (void *start, size_t size, int advice), (start, size, advice))
INTERPOSE(int, mprotect, (void *start, size_t size, int protection), (start, size, protection))
INTERPOSE(int, munmap, (void *start, size_t size), (start, size))
INTERPOSE(int, pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes),
          (mutex, attributes))
INTERPOSE(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
INTERPOSE(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
INTERPOSE(int, pthread_cond_init,
          (pthread_cond_t * condition, const pthread_condattr_t *attributes),
          (condition, attributes))
INTERPOSE(char *, secure_getenv, (const char *name), (name))

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static __thread int depth;
    long (*next)(long, ...) = (long (*)(long, ...))(uintptr_t)behind("syscall", &depth);
    long values[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < 6; i++)
        values[i] = va_arg(list, long);
    va_end(list);
    return next(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
