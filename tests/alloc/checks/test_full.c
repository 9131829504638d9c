/* A correct program does not notice checks:full: sizes, alignments, contents, resizing, usable
 * sizes, sized frees, threads, a full region, and fork. */
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_block(char *p, size_t size, size_t alignment, char value)
{
    must(p != NULL && hf_owns(p) && (uintptr_t)p % alignment == 0);
    must(hf_usable_size(p) == size);
    memset(p, value, size);
}

static void check_content(const char *p, size_t size, char value)
{
    for (size_t i = 0; i < size; i++)
        must(p[i] == value);
}

static void sizes(void)
{
    for (size_t size = 0; size < 300000; size += size / 7 + 1) {
        char *p = hf_malloc(size), *q = hf_calloc(1, size), *r = hf_memalign(64, size);
        must(q != NULL);
        check_content(q, size, 0);
        check_block(p, size, 16, 1);
        check_block(q, size, 16, 2);
        check_block(r, size, 64, 3);
        for (size_t next = size + 1; next < size + 50000; next += next / 3 + 1) {
            p = hf_realloc(p, next);
            must(p != NULL);
            check_content(p, size, 1);
            check_block(p, next, 16, 1);
            p = hf_realloc(p, size + 1);
            must(p != NULL);
            check_content(p, size, 1);
            check_block(p, size + 1, 16, 1);
        }
        check_content(q, size, 2);
        check_content(r, size, 3);
        hf_free_sized(p, size + 1);
        hf_free(q);
        hf_free_aligned_sized(r, 64, size);
    }
    hf_free_sized(NULL, 10);
    hf_free_sized(strdup("libc's"), 7);
    must(hf_realloc(hf_malloc(10), 0) == NULL);
    char *text = hf_strdup("12345");
    must(text != NULL && hf_usable_size(text) == 6);
    hf_free(text);
}

static void limits(void)
{
    volatile size_t most = PTRDIFF_MAX;
    char *p = hf_malloc(100);
    errno = 0;
    must(hf_malloc(most) == NULL && errno == ENOMEM);
    must(hf_malloc(most - 8) == NULL && hf_malloc(SIZE_MAX - most + most) == NULL);
    must(hf_calloc(most, 2) == NULL && hf_memalign(64, most) == NULL);
    errno = 0;
    must(hf_realloc(p, most) == NULL && errno == ENOMEM);
    errno = 0;
    must(hf_realloc(p, (size_t)1 << 46) == NULL && errno == ENOMEM);
    check_block(p, 100, 16, 1);
    hf_free(p);
}

static void *churn(void *seed)
{
    enum { BLOCKS = 64 };
    char *blocks[BLOCKS] = {NULL};
    unsigned state = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < times(20000); i++) {
        size_t at = (size_t)rand_r(&state) % BLOCKS, size = (size_t)rand_r(&state) % 5000;
        if (rand_r(&state) % 4 == 0) {
            blocks[at] = hf_realloc(blocks[at], size + 1);
            must(blocks[at] != NULL);
        } else {
            hf_free(blocks[at]);
            blocks[at] = hf_malloc(size);
        }
        memset(blocks[at], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        hf_free(blocks[i]);
    return NULL;
}

static void threads_and_forks(void)
{
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) {
            (void)churn((void *)7);
            _exit(0);
        }
        must(waitpid(child, &status, 0) == child && status == 0);
    }
    for (size_t i = 0; i < 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static void full_region(void)
{
    struct link {
        struct link *next;
    } *first = NULL, *link;
    while ((link = hf_malloc(100000)) != NULL) {
        link->next = first;
        first = link;
    }
    must(errno == ENOMEM && hf_realloc(first, 64 << 20) == NULL && first != NULL);
    while (first != NULL) {
        link = first->next;
        hf_free_sized(first, 100000);
        first = link;
    }
}

static int part(void)
{
    sizes();
    limits();
    threads_and_forks();
    full_region();
    return 0;
}

START_TEST(correct_programs_do_not_notice)
{
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:full,region:256M", "part"));
}
END_TEST

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return part();
    return RUN_SUITE(correct_programs_do_not_notice);
}
