/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A module's hidden malloc family: a static archive that the module links. Every name is hidden, so
 * no other module sees it; each function is one jump into libhomefree.
 *
 * Each function is an archive member of its own, so that a module references only the libhomefree
 * functions that it uses. meson.build generates a source for each name in functions.def; the source
 * defines HF_PICK_<name> as `~, 1`, HF_PICKED_SECTION as the function's section, and includes this
 * file.
 *
 * Owns nothing. Callable at any stage, even before the module's constructors.
 *
 * The functions have names of our own here and get libc's names as assembler labels, because libc's
 * headers declare those with attributes, inlines and redirections (_FORTIFY_SOURCE) that a
 * definition would have to repeat.
 */
#ifndef HOMEFREE_SHIM_MODULE_H
#define HOMEFREE_SHIM_MODULE_H

#include "shim/calls.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Expands to what_1 for the picked name, and to what_0, which is empty, for all others. */
#define SECOND(first, second, ...)    second
#define PICKED_OF(...)                SECOND(__VA_ARGS__)
#define IF_PICKED(name, what)         IF_PICKED_AGAIN(PICKED_OF(HF_PICK_##name, 0, ~), what)
#define IF_PICKED_AGAIN(picked, what) IF_PICKED_NOW(picked, what)
#define IF_PICKED_NOW(picked, what)   what##_##picked

#define HF_SHIM(name, ...)          IF_PICKED(name, PLAIN)(name, __VA_ARGS__)
#define HF_SHIM_VARIADIC(name, ...) IF_PICKED(name, VARIADIC)(name, __VA_ARGS__)

#define PLAIN_0(...)
#define PLAIN_1(name, result, parameters, arguments, call) \
    HIDDEN result shim_##name parameters __asm__(#name);   \
    result shim_##name parameters                          \
    {                                                      \
        return call;                                       \
    }
#define VARIADIC_0(...)
#define VARIADIC_1(name, parameters, last, call)      \
    HIDDEN int shim_##name parameters __asm__(#name); \
    int shim_##name parameters VARIADIC_BODY(last, call)
#include "shim/functions.def"

/*
 * A module that calls nothing but these functions would not need libc, as its linker sees it. Then
 * auditwheel, which learns from that which libc a wheel is for, refuses the wheel. So they need a
 * function of libc's: code that nothing calls has its address. It is in the same section, so that
 * lld with --gc-sections keeps both; for lld, a symbol that no such code refers to is no need. The
 * address lies in a GOT slot that start files have anyway, and the function has the first of libc's
 * versions.
 *
 * No other function may need libc by itself. GCC does not tell a linker that optimises about calls
 * of these functions, which it knows, until members were chosen. If libc was needed by then, it
 * gets the calls.
 */
#if defined HF_PICK_malloc || defined HF_PICK_calloc || defined HF_PICK_realloc ||             \
    defined HF_PICK_free || defined HF_PICK_aligned_alloc || defined HF_PICK_posix_memalign || \
    defined HF_PICK_strdup || defined HF_PICK_strndup
extern const char libc_function[] __asm__("__cxa_finalize");
__attribute__((used, section(HF_PICKED_SECTION))) static const char *need_libc(void)
{
    return libc_function;
}
#endif

#endif
