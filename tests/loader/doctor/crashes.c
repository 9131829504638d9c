/*
 * Dies as programs in the field do, for test_core.py: `crashes CASE [LIBRARY]`. As a shared object it
 * has the module that CPython calls.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    long value;
};

static struct node shared[8];

/* What the program keeps, as its own code would. */
__attribute__((noipa)) static char *text_of(const char *words)
{
    char *text = strdup(words);
    for (char *at = text; *at != '\0'; at++)
        *at |= 0x20;
    return text;
}

__attribute__((noipa)) static void fill(char *block)
{
    memset(block, 'x', 100);
}

__attribute__((noipa)) static void drop(void *block)
{
    free(block);
    puts("still here");
}

__attribute__((noipa)) long second_of(const struct node *node)
{
    return node->next->value;
}

typedef void *allocate(size_t);
typedef void release(void *);

int main(int count, char **words)
{
    const char *which = words[1];
    void *library = count > 2 ? dlopen(words[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (count > 2 && library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    char *block = text_of("A BLOCK OF LIBC'S, WHICH IS LONGER THAN THE SMALLEST OF THEM");
    char *other = text_of("ANOTHER ONE");
    struct node local[8] = {{.next = shared}};
    if (strcmp(which, "double-free") == 0) {
        drop(block);
        drop(block);
    } else if (strcmp(which, "interior") == 0) {
        drop(block + 16);
    } else if (strcmp(which, "stack") == 0) {
        drop(local + 1);
    } else if (strcmp(which, "static") == 0) {
        drop(shared + 1);
    } else if (strncmp(which, "libc-frees", 10) == 0) {
        allocate *get = (allocate *)dlsym(library, words[3]);
        fill(get(100));
        char *last = get(100);
        fill(last);
        drop(last);
    } else if (strncmp(which, "frees-libc", 10) == 0) {
        release *give = (release *)dlsym(library, words[3]);
        give(block);
        puts("still here");
    }
    return other[0] + (int)local[0].next->value;
}
