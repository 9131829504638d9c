/*
 * The hidden malloc family of a module: one static archive that the module links. Every name is
 * hidden, so it is the module's own and nobody else's; each is one jump into libhomefree.
 *
 * Owns nothing. May be called at any stage, before the module's constructors too.
 *
 * Which functions: functions.def. They are declared here under names of our own and get libc's
 * names as assembler labels, because libc's headers declare them with attributes, inlines and
 * redirections (_FORTIFY_SOURCE) that a definition would have to repeat.
 */
#include <homefree/homefree.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

static inline size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline void *allocate_pages(size_t size)
{
    size_t page = page_size();
    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return hf_memalign(page, size == 0 ? page : (size + page - 1) & -page);
}

/* The buffer is smaller than the caller says: ends the process, as glibc does. */
static inline char *checked_getcwd(char *buffer, size_t size, size_t room)
{
    if (buffer != NULL && size > room)
        abort();
    return hf_getcwd(buffer, size);
}

#define HF_SHIM(name, result, parameters, arguments, call) \
    HIDDEN result shim_##name parameters __asm__(#name);   \
    result shim_##name parameters                          \
    {                                                      \
        return call;                                       \
    }
#define HF_SHIM_VARIADIC(name, parameters, last, call) \
    HIDDEN int shim_##name parameters __asm__(#name);  \
    int shim_##name parameters                         \
    {                                                  \
        va_list ap;                                    \
        va_start(ap, last);                            \
        int length = call;                             \
        va_end(ap);                                    \
        return length;                                 \
    }
#include "functions.def"
