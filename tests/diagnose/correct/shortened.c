/*
 * A program whose report's file somebody cuts short while it allocates in several threads: stores
 * into the mapping raise SIGBUS.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *context)
{
    for (int i = 0; i < 50000; i++) {
        void *block = malloc((size_t)i % 1000);
        __asm__ volatile("" : "+r"(block) : : "memory");
        free(block);
    }
    return context;
}

static void shorten(const char *directory)
{
    char path[8192];
    struct dirent *entry;
    DIR *entries = opendir(directory);
    if (entries == NULL)
        return;
    while ((entry = readdir(entries)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strstr(entry->d_name, ".hfreport") != NULL && truncate(path, 0) != 0)
            perror("truncate");
    }
    closedir(entries);
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    int status;
    if (argc > 1)
        shorten(argv[1]);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        work(NULL);
        exit(3);
    }
    if (waitpid(child, &status, 0) != child)
        return 1;
    printf("%d\n", WEXITSTATUS(status));
    return 4;
}
