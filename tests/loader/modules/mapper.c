/*
 * See mapper.h. With MAPPER_FUNCTIONS it defines rpmalloc's functions, hidden, over mappings of a
 * block each; without, nothing but a message of mimalloc's is there to be recognised.
 */
#include "mapper.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct mapper *mapper(void);

#ifdef MAPPER_FUNCTIONS
static int released, resized, measured;

void *rpmalloc(size_t size);
void rpfree(void *ptr);
void *rprealloc(void *ptr, size_t size);
size_t rpmalloc_usable_size(void *ptr);

/* The block's size is stored in front of it. */
void *rpmalloc(size_t size)
{
    char *at = mmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, size + 64, MADV_NORMAL);
    memcpy(at, &size, sizeof size);
    return at + 64;
}

size_t rpmalloc_usable_size(void *ptr)
{
    size_t size;
    memcpy(&size, (char *)ptr - 64, sizeof size);
    measured++;
    return size;
}

void rpfree(void *ptr)
{
    size_t size;
    memcpy(&size, (char *)ptr - 64, sizeof size);
    released++;
    munmap((char *)ptr - 64, size + 64);
}

void *rprealloc(void *ptr, size_t size)
{
    void *block = rpmalloc(size);
    size_t old = rpmalloc_usable_size(ptr);
    resized++;
    if (block != NULL) {
        memcpy(block, ptr, old < size ? old : size);
        rpfree(ptr);
    }
    return block;
}

static long call_and_look(bool *kept, long number, void *a, size_t b, size_t c)
{
#    if defined(__x86_64__)
    /* Written out, because a compiler may keep nothing at that place. */
    const long variable = 0x5eed;
    long result = 0, found, unused;
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "sub $128, %%rsp\n\t" /* skips the red zone */
                     "and $-16, %%rsp\n\t"
                     "xor %%r8d, %%r8d\n\t"
                     "xor %%r9d, %%r9d\n\t"
                     "push %[variable]\n\t"
                     "push %[variable]\n\t"
                     "call syscall@PLT\n\t"
                     "pop %[found]\n\t"
                     "mov %%rbx, %%rsp"
                     : "+a"(result), [found] "=&r"(found), "+D"(number), "+S"(a), "+d"(b), "+c"(c),
                       "=&b"(unused)
                     : [variable] "r"(variable)
                     : "r8", "r9", "r10", "r11", "memory", "cc");
    *kept = found == variable;
    return result;
#    else
    /* All arguments are in registers. */
    *kept = true;
    return syscall(number, a, b, c, 0L, 0L, 0L);
#    endif
}
#endif

static int unmap_by_number(void *at, size_t size)
{
    return (int)syscall(SYS_munmap, at, size);
}

static void *remap(void *at, size_t size, size_t new_size, int flags)
{
    return mremap(at, size, new_size, flags);
}

static long call_by_number(long number, void *argument)
{
    /* The caller's variable is where a seventh argument would be. */
    return syscall(number, argument);
}

/* None of these may end in a tail call, which would change who maps. */

static void *map_by_number(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    void *mapped = (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
    if (mapped == (void *)1)
        puts("mimalloc: warning: never said\n");
    return mapped;
}

static void *map(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    void *mapped = mmap(at, size, protection, flags, file, offset);
    if (mapped == (void *)1)
        puts("mimalloc: warning: never said\n");
    return mapped;
}

static void *move_break(intptr_t increment)
{
    void *before = sbrk(increment);
    if (before == (void *)1)
        madvise(before, 1, MADV_NORMAL);
    return before;
}

__attribute__((visibility("default"))) const struct mapper *mapper(void)
{
    static const struct mapper functions = {
        .map = map,
        .unmap = munmap,
        .remap = remap,
        .move_break = move_break,
        .map_by_number = map_by_number,
        .unmap_by_number = unmap_by_number,
        .call_by_number = call_by_number,
#ifdef MAPPER_FUNCTIONS
        .call_and_look = call_and_look,
        .allocate = rpmalloc,
        .released = &released,
        .resized = &resized,
        .measured = &measured,
#endif
    };
    return &functions;
}
