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
#include "calls.h"

#define HIDDEN __attribute__((visibility("hidden")))

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
