/*
 * Notes that lead nowhere, or to structures that are none. HOSTILE_NOTE is a note's text for the
 * assembler, or else HOSTILE_FIELDS the structure's members; MEMBERS are right ones.
 */
#include "allocator_registry.h"

#include <stdlib.h>

static int owns(const void *address)
{
    (void)address;
    return ALLOCATOR_REGISTRY_NOT_MINE;
}

static void free_block(void *block)
{
    (void)block;
}

static size_t usable_size(const void *block)
{
    (void)block;
    return 0;
}

#define VERSION   ALLOCATOR_REGISTRY_VERSION, sizeof(struct allocator_registry)
#define NAMES     "hostile", "1.0", 0
#define FUNCTIONS owns, free_block, usable_size
#define NOTHING   NULL, NULL, NULL, NULL, NULL, NULL

/* The whole of it, so that nothing ends it before its segment does. */
__attribute__((used, section(".endless"), aligned(4096))) static const char endless[4096] = {
    [0 ... 4095] = 'x'};
__attribute__((used)) static const char empty[] = "";

#ifdef HOSTILE_NOTE
__attribute__((used))
const struct allocator_registry structure = {VERSION, NAMES, FUNCTIONS, NOTHING};
__asm__(".pushsection .note.allocator_registry, \"a\", %note\n.balign 4\n" HOSTILE_NOTE
        "\n.popsection");
#else
ALLOCATOR_REGISTRY_PUBLISH(structure) = {HOSTILE_FIELDS};
#endif
