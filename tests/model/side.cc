/* See side.h. */
#include "side.h"

#include <malloc.h>
#include <new>
#include <stdlib.h>
#include <string.h>

#ifdef MODEL_NAMED
#    define NAMED(prefix, name)  NAMED_(prefix, name)
#    define NAMED_(prefix, name) prefix##name
#    define CALL(name)           NAMED(MODEL_NAMED, name)
extern "C" {
void *CALL(malloc)(size_t size);
void *CALL(calloc)(size_t count, size_t size);
void *CALL(memalign)(size_t alignment, size_t size);
void *CALL(realloc)(void *block, size_t size);
void CALL(free)(void *block);
size_t MODEL_MEASURE(void *block);
}
#else
#    define CALL(name)    name
#    define MODEL_MEASURE malloc_usable_size
#endif

/* A string of size - 1 characters is what strdup() copies. */
static void *duplicate(size_t size)
{
    char *text = static_cast<char *>(CALL(malloc)(size));
    if (text == nullptr)
        return nullptr;
    memset(text, 'x', size - 1);
    text[size - 1] = '\0';
    void *copy = strdup(text);
    CALL(free)(text);
    return copy;
}

static void *acquire(model_kind kind, size_t size)
{
    switch (kind) {
    case MODEL_MALLOC:
        return CALL(malloc)(size);
    case MODEL_CALLOC:
        return CALL(calloc)(1, size);
    case MODEL_ALIGNED:
        return CALL(memalign)(MODEL_ALIGNMENT, size);
    case MODEL_STRDUP:
        return duplicate(size);
    case MODEL_NEW:
        return ::operator new(size, std::nothrow);
    case MODEL_NEW_ARRAY:
        return ::operator new[](size, std::nothrow);
    default:
        return nullptr;
    }
}

static void release(model_kind kind, void *block)
{
    if (kind == MODEL_NEW)
        ::operator delete(block);
    else if (kind == MODEL_NEW_ARRAY)
        ::operator delete[](block);
    else
        CALL(free)(block);
}

static void *resize(void *block, size_t size)
{
    return CALL(realloc)(block, size);
}

static size_t measure(void *block)
{
    return MODEL_MEASURE(block);
}

const struct model_functions *model_side()
{
    static const struct model_functions side = {acquire, release, resize, measure};
    return &side;
}
