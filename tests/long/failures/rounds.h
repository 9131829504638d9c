/*
 * What the programs here have in common: an operation runs several times between two marks that
 * failures.py sees in the trace, and the program prints what each round returned, and what the
 * process holds afterwards.
 */
#ifndef HOMEFREE_TESTS_LONG_FAILURES_ROUNDS_H
#define HOMEFREE_TESTS_LONG_FAILURES_ROUNDS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 3 };

/* For what must hold whatever fails. */
#define must(condition) ((condition) ? (void)0 : broken(__LINE__, #condition))

static inline __attribute__((noreturn)) void broken(int line, const char *condition)
{
    printf("broken at line %d: %s\n", line, condition);
    fflush(stdout);
    _exit(99);
}

/* Not access(), which libraries may call too: no other call has this path. */
static inline void mark(const char *path)
{
    (void)syscall(SYS_faccessat, -1, path, 0);
}

static inline int count_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static inline void print_mappings(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "re");
    must(maps != NULL);
    int files = 0, anonymous = 0;
    while (fgets(line, sizeof line, maps) != NULL)
        *(strchr(line, '/') != NULL ? &files : &anonymous) += 1;
    fclose(maps);
    printf("mappings %d %d\n", files, anonymous);
}

static inline void run_rounds(int (*operation)(void))
{
    int results[ROUNDS];
    mark("/homefree/begin");
    for (int i = 0; i < ROUNDS; i++)
        results[i] = operation();
    mark("/homefree/end");
    for (int i = 0; i < ROUNDS; i++)
        printf("round %d\n", results[i]);
    printf("descriptors %d\n", count_descriptors());
    print_mappings();
    fflush(stdout);
}

#endif
