/*
 * Calls mine.c's functions by their names, through slots.
 */
#include <dlfcn.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))

long tc_delete(const void *session);
long tc_free(const void *session);
long mi_free(const void *node);
long mi_free_size(const void *node, size_t size);
long free_sized(const void *pool, size_t offset, size_t size);
long free_aligned_sized(const void *pool, size_t offset, size_t size);

API long call_mine(int which, const void *first, size_t second, size_t third);

long call_mine(int which, const void *first, size_t second, size_t third)
{
    switch (which) {
    case 0:
        return tc_delete(first);
    case 1:
        return tc_free(first);
    case 2:
        return mi_free(first);
    case 3:
        return mi_free_size(first, second);
    case 4:
        return free_sized(first, second, third);
    case 5:
        return free_aligned_sized(first, second, third);
    case 6: {
        long (*found)(const void *, size_t, size_t) =
            (long (*)(const void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_sized");
        return found != NULL ? found(first, second, third) : -1;
    }
    default:
        return 0;
    }
}
