/*
 * Owns the table of allocators that can be asked. Sources: mimalloc.h (mi_is_in_heap_region, 1.6
 * and later), gperftools/malloc_extension_c.h (MallocExtension_GetOwnership: 1 is "owned", 2.0 and
 * later).
 */
#include "neighbours.h"

#include "foreign.h"
#include "stubs.h"

#include <dlfcn.h>

static bool owns_mimalloc(const struct hf_neighbour *self, const void *ptr)
{
    return ((bool (*)(const void *))self->question)(ptr);
}

static bool owns_tcmalloc(const struct hf_neighbour *self, const void *ptr)
{
    enum { OWNED = 1 };
    return ((int (*)(const void *))self->question)(ptr) == OWNED;
}

static const struct {
    const char *allocator;
    const char *question;
    bool (*owns)(const struct hf_neighbour *self, const void *ptr);
    const char *free, *realloc, *usable_size;
} known[] = {
    {"mimalloc", "mi_is_in_heap_region", owns_mimalloc, "mi_free", "mi_realloc", "mi_usable_size"},
    {"tcmalloc", "MallocExtension_GetOwnership", owns_tcmalloc, "tc_free", "tc_realloc",
     "tc_malloc_size"},
};

void hf_neighbour_look(const struct hf_object *object)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct hf_neighbour neighbour = {
            .allocator = known[i].allocator,
            .object = hf_dynlink_name(object->map),
            .owns = known[i].owns,
            .question = hf_object_address(object, known[i].question),
        };
        if (neighbour.question == NULL)
            continue;
        neighbour.free = (void (*)(void *))hf_object_address(object, known[i].free);
        neighbour.realloc = (void *(*)(void *, size_t))hf_object_address(object, known[i].realloc);
        neighbour.usable_size =
            (size_t(*)(const void *))hf_object_address(object, known[i].usable_size);
        if (neighbour.free == NULL || neighbour.realloc == NULL || neighbour.usable_size == NULL ||
            dlopen(neighbour.object, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL)
            continue;
        if (hf_neighbour_add(&neighbour) == 0)
            hf_stubs_ask_neighbours();
    }
}
