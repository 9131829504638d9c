/*
 * Who owns an address. Owns nothing; takes no lock of the heap.
 */
#include "dynlink.h"
#include "foreign.h"
#include "instance.h"
#include "sized.h"
#include "tenant.h"

#include <errno.h>

bool hf_owns(const void *ptr)
{
    return hf_owned(ptr);
}

static void describe(const void *ptr, struct hf_owner *owner)
{
    if (hf_tenant_describe(ptr, owner))
        return;
    if (hf_owned(ptr)) {
        owner->block_size = hf_heap_block_size(ptr);
        owner->kind = HF_OWNER_HEAP;
        owner->block = owner->block_size != 0 ? ptr : NULL;
        owner->allocator = "homefree";
        owner->object = hf_dynlink_name(hf_dynlink_find(&hf_region));
        return;
    }
    const struct link_map *map = hf_dynlink_find(ptr);
    if (map != NULL) {
        owner->kind = HF_OWNER_STATIC;
        owner->object = hf_dynlink_name(map);
        return;
    }
    const struct hf_neighbour *neighbour = hf_neighbour_of(ptr);
    if (neighbour != NULL) {
        owner->kind = HF_OWNER_ALLOCATOR;
        owner->allocator = neighbour->allocator;
        owner->object = neighbour->object;
    }
}

int hf_owner_of(const void *ptr, struct hf_owner *out)
{
    hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    if (other != NULL)
        return other->owner_of(ptr, out);
    struct hf_owner owner = {.kind = HF_OWNER_UNKNOWN};
    if (out == NULL || out->size < offsetof(struct hf_owner, allocator))
        return -EINVAL;
    if (ptr != NULL)
        describe(ptr, &owner);
    hf_sized_copy(out, &owner, sizeof owner);
    return 0;
}
