/* SPDX-License-Identifier: 0BSD */
/*
 * allocator_registry.h: an allocator tells its process which blocks are its own and how to free
 * them.
 *
 * Copy this file; it needs nothing else. An allocator publishes one constant structure, in the file
 * that defines its functions, so that whoever links those links it:
 *
 *     ALLOCATOR_REGISTRY_PUBLISH(my_member) = {
 *         ALLOCATOR_REGISTRY_VERSION, sizeof(struct allocator_registry), "mine", "1.2",
 *         ALLOCATOR_REGISTRY_TELLS_FIRST, owns, free_block, usable_size, resize, allocate,
 *         NULL, NULL, trim, NULL};
 *
 * In ELF a note of the object leads to it: owner "AllocatorRegistry", type 1, and as contents two
 * signed numbers of a pointer's size: the structure's address, and that of the object's ELF header,
 * each less the number's own. patchelf moves notes, but neither of these, so a reader takes the
 * header's address, plus the first number, less the second, less a pointer's size. It finds them
 * with dl_iterate_phdr(), whatever is hidden or stripped. In Mach-O and PE it is a pointer in the
 * section "__DATA,__allocreg" or ".allocrg"; readers skip null pointers there. An object may
 * publish several. An object with a member publishes every allocator that it holds: readers need
 * not guess.
 *
 * The structure and all of its functions lie in the object that publishes them, and nothing in it
 * changes while the object is loaded. A reader believes none of it before it has seen that the
 * structure lies in a readable segment and the functions in executable ones; where something does
 * not, as before the object is relocated, there is no member.
 *
 * Who reads: whoever frees what others allocated. To call a member, a reader needs a reference to
 * the object (dlopen()), which it may never give back; or it calls while the object cannot go.
 *
 * Every function may be called by any thread, also by one that has never called the allocator, and
 * from the object's first constructor on until the process ends, also after the object's
 * destructors; a function that comes too late may do nothing. `owns` alone may be called earlier
 * (the object is relocated), in a signal handler, and in a forked child at any time. The others
 * behave after a fork as the allocator's own malloc and free do. None throws, and none but
 * `allocate` and `resize` changes errno. docs/registry.md of homefree has the reasons.
 */
#ifndef ALLOCATOR_REGISTRY_H
#define ALLOCATOR_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

/* Another number is another layout, which a reader leaves alone. Later releases of version 1 add
 * members at the end, and flags and answers: nothing that is here changes its meaning. */
#define ALLOCATOR_REGISTRY_VERSION 1

#define ALLOCATOR_REGISTRY_OWNER "AllocatorRegistry"
#define ALLOCATOR_REGISTRY_TYPE  1

/* What `owns` answers. A reader takes an answer that it does not know for MINE. */
enum allocator_registry_answer {
    ALLOCATOR_REGISTRY_NOT_MINE = 0,
    ALLOCATOR_REGISTRY_BLOCK = 1,    /* the first byte of a live block: what was allocated */
    ALLOCATOR_REGISTRY_INSIDE = 2,   /* another byte of a live block */
    ALLOCATOR_REGISTRY_NO_BLOCK = 3, /* in the allocator's memory, and in no live block */
    ALLOCATOR_REGISTRY_MINE = 4      /* in the allocator's memory; more cannot be known */
};

/* `flags`: how much the answers mean. */
#define ALLOCATOR_REGISTRY_TELLS_FIRST UINT64_C(1) /* never MINE: blocks' first bytes are known */
#define ALLOCATOR_REGISTRY_TELLS_DEAD  UINT64_C(2) /* a freed block is never BLOCK or INSIDE */
#define ALLOCATOR_REGISTRY_SLOW        UINT64_C(4) /* `owns` takes longer than a constant time */
/* NOT_MINE may be said of its own addresses that are no block's first byte; and even of blocks. */
#define ALLOCATOR_REGISTRY_DENIES_INSIDE UINT64_C(8)
#define ALLOCATOR_REGISTRY_DENIES_BLOCKS UINT64_C(16)

/* What `statistics` fills in: bytes; UINT64_MAX is not known. A caller sets members to that which a
 * member of the registry may lack that was compiled earlier, with a shorter structure. */
struct allocator_registry_statistics {
    size_t size;   /* of this structure, set by the caller: only members inside it are filled in */
    uint64_t live; /* in blocks that are allocated */
    uint64_t held; /* taken from the system and not given back, whether in use or not */
};

/* Members that say so may be NULL. A reader uses only members that lie inside `size`. */
struct allocator_registry {
    uint32_t version; /* ALLOCATOR_REGISTRY_VERSION */
    uint32_t size;    /* sizeof(struct allocator_registry), as the member was compiled */

    const char *name;    /* "jemalloc": at most 63 bytes, printable ASCII */
    const char *release; /* "5.3.0", the same; may be NULL */
    uint64_t flags;

    /*
     * Whose an address is: enum allocator_registry_answer. Any value, mapped or not. Takes no lock,
     * allocates nothing, and reads only memory that is the allocator's own. Of a block that the
     * caller holds, the answer is exact; of others it may be outdated when it arrives. Before the
     * allocator's first block: NOT_MINE.
     */
    int (*owns)(const void *address);

    /* Frees a live block by its first byte, whichever of the allocator's functions made it. */
    void (*free_block)(void *block);

    /* How many bytes of a live block may be used, by its first byte: at least what was asked for.
     */
    size_t (*usable_size)(const void *block);

    /* As realloc(), for a live block and a size other than 0: NULL and ENOMEM leave the block. What
     * it returns is this allocator's. May be NULL: `allocate`, copy and free. */
    void *(*resize)(void *block, size_t size);

    /* A block of at least `size` bytes at a multiple of `alignment`, a power of two; 0 is
     * malloc()'s own. NULL and ENOMEM: there is none. May be NULL: nobody else may allocate here.
     */
    void *(*allocate)(size_t size, size_t alignment);

    /* Whether the calling thread may call `free_block`, `usable_size`, `resize` and `allocate` now:
     * 0 or 1. For allocators that need more than a thread, as an interpreter's do. May be NULL:
     * always. A reader that is told 0 keeps the block, or hands it to another thread. */
    int (*ready)(void);

    /*
     * Calls visit(start, size, what, context) for the allocator's memory, in any order, until visit
     * returns something other than 0; the result is that, or 0. `what` is BLOCK for a live block,
     * NO_BLOCK for free memory, MINE for memory about which no more is known. May lock the
     * allocator: visit neither allocates nor frees here. May be NULL.
     */
    int (*walk)(int (*visit)(const void *start, size_t size, int what, void *context),
                void *context);

    /* Gives back to the system what no live block needs. May take locks and time. May be NULL. */
    void (*trim)(void);

    /* Fills in *out. Result: 0, or -1 if nothing is known. May take locks. May be NULL. */
    int (*statistics)(struct allocator_registry_statistics *out);
};

/* ---- publishing ----
 *
 * ALLOCATOR_REGISTRY_PUBLISH(structure) = { … }; at file scope defines and publishes. `structure`
 * is a name that no other file of the object uses. */
#ifdef __cplusplus
#    define ALLOCATOR_REGISTRY_EXTERN extern "C"
#else
#    define ALLOCATOR_REGISTRY_EXTERN extern
#endif

#if defined(__ELF__)
#    if UINTPTR_MAX > 0xffffffff
#        define ALLOCATOR_REGISTRY_SIZE   "16"
#        define ALLOCATOR_REGISTRY_NUMBER ".quad "
#    else
#        define ALLOCATOR_REGISTRY_SIZE   "8"
#        define ALLOCATOR_REGISTRY_NUMBER ".long "
#    endif
/* The section's flag "a" puts the note into the object's memory. Linkers keep notes, and with them
 * what they refer to. The owner's name is as long as it is so that readers which align to 4 bytes
 * and those which align to 8 find the numbers at the same place. */
#    define ALLOCATOR_REGISTRY_PUBLISH(structure)                                                \
        __asm__(                                                                                 \
            ".pushsection .note.allocator_registry, \"a\", %note\n\t.balign 4\n\t"               \
            ".long 18, " ALLOCATOR_REGISTRY_SIZE ", 1\n\t"                                       \
            ".asciz \"AllocatorRegistry\"\n\t.balign 4\n\t" ALLOCATOR_REGISTRY_NUMBER #structure \
            " - .\n\t.hidden __ehdr_start\n\t" ALLOCATOR_REGISTRY_NUMBER                         \
            "__ehdr_start - .\n\t.popsection");                                                  \
        ALLOCATOR_REGISTRY_EXTERN __attribute__((visibility("hidden")))                          \
        const struct allocator_registry structure;                                               \
        __attribute__((used)) const struct allocator_registry structure
#elif defined(_MSC_VER)
#    define ALLOCATOR_REGISTRY_PUBLISH(structure)                                  \
        ALLOCATOR_REGISTRY_EXTERN const struct allocator_registry structure;       \
        __pragma(section(".allocrg", read))                                        \
            __pragma(comment(linker, "/include:" #structure "_entry"))             \
                ALLOCATOR_REGISTRY_EXTERN __declspec(allocate(".allocrg"))         \
                    const struct allocator_registry *const structure##_entry;      \
        __declspec(allocate(".allocrg"))                                           \
            const struct allocator_registry *const structure##_entry = &structure; \
        const struct allocator_registry structure
#else
#    if defined(__APPLE__)
#        define ALLOCATOR_REGISTRY_SECTION "__DATA,__allocreg"
#    else
#        define ALLOCATOR_REGISTRY_SECTION ".allocrg"
#    endif
#    define ALLOCATOR_REGISTRY_PUBLISH(structure)                                               \
        ALLOCATOR_REGISTRY_EXTERN const struct allocator_registry structure;                    \
        __attribute__((section(ALLOCATOR_REGISTRY_SECTION),                                     \
                       used)) static const struct allocator_registry *const structure##_entry = \
            &structure;                                                                         \
        const struct allocator_registry structure
#endif

#endif
