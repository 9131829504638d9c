/*
 * A module with the shim, as an extension module allocates: bytes in a capsule, or MemoryError.
 * Linked with nothing but the shim: the functions of CPython are the process's.
 */
#include <stdlib.h>
#include <string.h>

typedef struct object object;
extern object *PyErr_NoMemory(void);
extern object *PyCapsule_New(void *pointer, const char *name, void (*destroy)(object *));
extern void *PyCapsule_GetPointer(object *capsule, const char *name);

#define API __attribute__((visibility("default")))
API object *taker_take(size_t size);
API void *taker_malloc(size_t size);
API void taker_free(void *block);

static void drop(object *capsule)
{
    free(PyCapsule_GetPointer(capsule, "taken"));
}

object *taker_take(size_t size)
{
    void *block = malloc(size);
    return block != NULL ? PyCapsule_New(block, "taken", drop) : PyErr_NoMemory();
}

/* Without the GIL, if it is called so. */
void *taker_malloc(size_t size)
{
    return malloc(size);
}

void taker_free(void *block)
{
    free(block);
}
