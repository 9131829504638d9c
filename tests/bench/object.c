/*
 * A small shared object to be routed. It is built in several kinds, and bench.py copies each many
 * times, because what routing costs depends on what an object imports and how it is linked, not on
 * what it does:
 *
 *   OBJECT_IMPORTS  how many functions it calls that nobody has (weak, so that no linker minds):
 *                   as many names routing has to tell from its own
 *   OBJECT_EXPORTS  how many functions it exports
 *   OBJECT_FREES    whether it calls free and realloc, as most objects do
 *   OBJECT_WORDS    whether it also has them in tables: words in data, not slots
 */
#include <stddef.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

#define TEN(DO, n) \
    DO(n##0) DO(n##1) DO(n##2) DO(n##3) DO(n##4) DO(n##5) DO(n##6) DO(n##7) DO(n##8) DO(n##9)
#define HUNDRED(DO, n) \
    TEN(DO, n##0)      \
    TEN(DO, n##1)      \
    TEN(DO, n##2)      \
    TEN(DO, n##3)      \
    TEN(DO, n##4)      \
    TEN(DO, n##5)      \
    TEN(DO, n##6)      \
    TEN(DO, n##7)      \
    TEN(DO, n##8)      \
    TEN(DO, n##9)

#if OBJECT_IMPORTS >= 300
#    define EACH_IMPORT(DO) HUNDRED(DO, 1) HUNDRED(DO, 2) HUNDRED(DO, 3)
#elif OBJECT_IMPORTS >= 100
#    define EACH_IMPORT(DO) HUNDRED(DO, 1)
#else
#    define EACH_IMPORT(DO) TEN(DO, 1)
#endif
#if OBJECT_EXPORTS >= 100
#    define EACH_EXPORT(DO) HUNDRED(DO, 1)
#else
#    define EACH_EXPORT(DO) TEN(DO, 1)
#endif

#define DECLARE(n) __attribute__((weak)) EXPORTED void bench_imported_##n(void);
EACH_IMPORT(DECLARE)

#define CALL(n) bench_imported_##n();
EXPORTED void bench_import(void);
void bench_import(void){EACH_IMPORT(CALL)}

#define DEFINE(n)                               \
    EXPORTED int bench_exported_##n(int value); \
    int bench_exported_##n(int value)           \
    {                                           \
        return value + 1##n;                    \
    }
EACH_EXPORT(DEFINE)

#if OBJECT_FREES
    EXPORTED void bench_release(void *ptr);
EXPORTED void *bench_resize(void *ptr, size_t size);

void bench_release(void *ptr)
{
    free(ptr);
}

void *bench_resize(void *ptr, size_t size)
{
    return realloc(ptr, size);
}
#endif

#if OBJECT_WORDS
struct bench_allocator {
    void *(*resize)(void *, size_t);
    void (*release)(void *);
};
EXPORTED extern struct bench_allocator bench_replaceable;
EXPORTED extern const struct bench_allocator bench_fixed;
struct bench_allocator bench_replaceable = {realloc, free};
const struct bench_allocator bench_fixed = {realloc, free};
#endif
