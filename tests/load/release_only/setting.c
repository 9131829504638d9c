/*
 * Makes a module's jemalloc one that cannot be replaced: the module sets a variable of its own
 * allocator's while it runs.
 */
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
extern const char *malloc_conf;
extern void set(void);
#ifdef __cplusplus
}
#endif

void set(void)
{
    malloc_conf = "narenas:2";
}
