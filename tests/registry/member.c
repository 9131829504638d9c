/*
 * A member of the registry that is not stripped of anything by accident: nothing in its object
 * refers to it but the note. Its blocks are those of one static array.
 */
#include "allocator_registry.h"

#ifdef MEMBER_SPARE /* where a test moves the notes to */
__attribute__((used)) static const char spare[1024] = "spare bytes";
#endif

static unsigned char memory[1 << 16];
static size_t next;

static int owns(const void *address)
{
    const size_t offset = (uintptr_t)address - (uintptr_t)memory;
    if (offset >= sizeof memory)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (offset >= next)
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    return offset % 256 == 0 ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
}

static void free_block(void *block)
{
    (void)block;
}

static size_t usable_size(const void *block)
{
    (void)block;
    return 256;
}

static void *allocate(size_t size, size_t alignment)
{
    if (size > 256 || alignment > 256 || next == sizeof memory)
        return NULL;
    next += 256;
    return memory + next - 256;
}

ALLOCATOR_REGISTRY_PUBLISH(first_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "first",
    "1.0",
    ALLOCATOR_REGISTRY_TELLS_FIRST,
    owns,
    free_block,
    usable_size,
    NULL,
    allocate,
    NULL,
    NULL,
    NULL,
    NULL,
};

ALLOCATOR_REGISTRY_PUBLISH(second_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "second",
    NULL,
    0,
    owns,
    free_block,
    usable_size,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

#ifdef MEMBER_EXPORTED
__attribute__((visibility("default"))) const struct allocator_registry *member(void);
const struct allocator_registry *member(void)
{
    return &first_member;
}
#endif

#ifdef MEMBER_PROGRAM
#    define main reader_main
#    include "../../adapters/reader.c"
#    undef main

int main(void)
{
    static char name[] = "program";
    char *arguments[] = {name, NULL};
    return reader_main(1, arguments);
}
#endif
