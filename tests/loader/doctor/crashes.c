/*
 * Dies as programs in the field do, for cores.py: `crashes CASE [LIBRARY FUNCTION]`. Says the
 * pointer before. As a shared object it has the module that CPython calls.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct node {
    struct node *next;
    long value;
};

static struct node shared[8];
static const char constant[64] = "a constant text, which nobody may free, of some length or other";

/* Nothing of these is known to the compiler where they are called, as of another file's. */
#ifdef __clang__
#    define APART __attribute__((noinline))
#else
#    define APART __attribute__((noipa))
#endif

APART static char *text_of(const char *words)
{
    char *text = strdup(words);
    for (char *at = text; *at != '\0'; at++)
        *at |= 0x20;
    return text;
}

APART static void fill(char *block)
{
    memset(block, 'x', 100);
}

APART static void drop(void *block)
{
    free(block);
    puts("still here");
}

/* Frees a pointer that nobody keeps; libc takes the block for a mapped one. */
APART static void lose(void)
{
    drop(text_of("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF") + 16);
}

APART static void say(const void *pointer)
{
    fprintf(stderr, "%p\n", pointer);
}

APART long second_of(const struct node *node)
{
    return node->next->value;
}

APART static long delete_node(const struct node *node)
{
    return node->next->value;
}

/* Uses memory that is gone; a block that was freed meanwhile, with right, leads there. */
APART static long value_of_gone(struct node **nodes)
{
    struct node *node = nodes[2];
    munmap(node, sizeof *node);
    free(nodes);
    return node->value;
}

/* Until the stack is used up. */
APART static int deeper(volatile char *above)
{
    volatile char here[4096];
    here[0] = above[0];
    return deeper(here) + here[0];
}

static void *wrong(const char *which, char *block, char *other, struct node *local)
{
    if (strcmp(which, "interior") == 0)
        return block + 16;
    if (strcmp(which, "stack") == 0)
        return local + 1;
    if (strcmp(which, "static") == 0)
        return shared + 1;
    if (strcmp(which, "constant") == 0)
        return (void *)(unsigned long)(constant + 16);
    if (strcmp(which, "mapped") == 0)
        return (char *)memset((char *)malloc(1 << 20) + 8192, 0x22, 4096) + 16;
    if (strcmp(which, "overrun") == 0)
        memset(block, 0x5a, malloc_usable_size(block) + sizeof(size_t));
    return strcmp(which, "overrun") == 0 ? other : block;
}

int main(int count, char **words)
{
    const char *which = words[1];
    void *library = count > 2 ? dlopen(words[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *function = library != NULL ? dlsym(library, words[3]) : NULL;
    if (count > 2 && function == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    char *block = text_of("A BLOCK OF LIBC'S, WHICH IS LONGER THAN THE SMALLEST OF THEM");
    char *other = text_of("ANOTHER ONE");
    struct node local[8] = {{.next = shared}};
    void *pointer = wrong(which, block, other, local);
    if (strcmp(which, "libc-frees") == 0) {
        void *(*allocate)(size_t) = (void *(*)(size_t))function;
        fill(allocate(100));
        pointer = allocate(100);
        fill(pointer);
    }
    say(pointer);
    if (strcmp(which, "no-allocator") == 0)
        return (int)delete_node(shared);
    if (strcmp(which, "gone") == 0) {
        struct node **nodes = malloc(3 * sizeof *nodes);
        nodes[2] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return (int)value_of_gone(nodes);
    }
    if (strcmp(which, "overflow") == 0)
        return deeper(block);
    if (strcmp(which, "damaged-heap") == 0) {
        memset(block, 0x5a, 64 << 10); /* also of libc's top chunk */
        *(volatile char *)NULL = 0;
    }
    if (strcmp(which, "frees-libcs") == 0)
        ((void (*)(void *))function)(pointer);
    else if (strcmp(which, "lost") == 0)
        lose();
    else
        drop(pointer);
    if (strcmp(which, "double-free") == 0)
        drop(pointer);
    return other[0] + (int)local[0].next->value;
}
