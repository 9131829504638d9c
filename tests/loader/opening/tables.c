/*
 * A stripped library with 64 MiB of tables that maps memory as allocators do, and can lock its
 * tables away. Before them lies a message of mimalloc's, where linkers merge strings.
 */
#include <stddef.h>
#include <sys/mman.h>

int lock_tables(void);
void *map_pages(size_t size);
const char *message(void);

#define TABLES (64 << 20)
__attribute__((aligned(4096))) static const char tables[TABLES] = {1};

__attribute__((visibility("default"))) const char *message(void)
{
    static const char *volatile text = "mimalloc: warning: %s\n";
    return text;
}

__attribute__((visibility("default"))) int lock_tables(void)
{
    return mprotect((void *)(size_t)tables, sizeof tables, PROT_NONE);
}

__attribute__((visibility("default"))) void *map_pages(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        madvise(at, size, MADV_NORMAL);
    __asm__ volatile("" ::: "memory");
    return at;
}
