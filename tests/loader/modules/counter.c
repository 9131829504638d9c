/*
 * A wrapper as tools make them: it defines free and sends each call on to the next one.
 */
#include <dlfcn.h>
#include <stddef.h>

extern int counter_calls;
int counter_calls __attribute__((visibility("default")));

__attribute__((visibility("default"))) void free(void *ptr);

void free(void *ptr)
{
    static void (*next)(void *);
    if (next == NULL)
        next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    counter_calls++;
    next(ptr);
}

/* A function that is not routed. */
__attribute__((visibility("default"))) int answer(void);

int answer(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "answer");
    return next() + 1;
}
