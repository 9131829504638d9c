/* Uses homefree/diagnose.h, for test_part.py: what is found in a part of a run, in threads and in a
 * forked child, and what the functions return in a process that is not diagnosed.
 */
#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char data[64];

#define MUST(condition)                                                \
    do {                                                               \
        if (!(condition)) {                                            \
            printf("part.c:%d: %s is not so\n", __LINE__, #condition); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

__attribute__((noipa)) static void free_data(void)
{
    free(data + 16);
    /* No tail call: its place would be the caller's, whose loop may be unrolled. */
    __asm__ volatile("");
}

/* How often each rule was found, and at how many places. */
struct sums {
    uint64_t count;
    int places;
};

static struct sums sums_of(struct hf_findings *part)
{
    struct hf_found found = {.size = sizeof found};
    struct sums sums = {0, 0};
    int result;
    while ((result = hf_findings_next(part, &found)) == 1) {
        MUST(strcmp(found.rule, "static-free") == 0 && found.severity == HF_FOUND_ERROR);
        MUST(strcmp(found.freed.function, "free") == 0);
        MUST(strstr(found.freed.object, "part") != NULL && found.freed.offset != 0);
        MUST(found.allocated.object == NULL && found.first_freed.object == NULL);
        MUST(found.remedy[0] != '\0');
        sums.count += found.count;
        sums.places++;
    }
    MUST(result == 0);
    return sums;
}

static void *work(void *unused)
{
    for (int i = 0; i < 100; i++)
        free_data();
    return unused;
}

static void in_child(struct hf_findings *part)
{
    const pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        MUST(sums_of(part).count == 0);
        free_data();
        MUST(sums_of(part).count == 1);
        hf_findings_end(part);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void diagnosed(void)
{
    struct hf_findings *before, *part, *empty;
    MUST(hf_findings_begin(&before) == 0);
    free_data();
    MUST(hf_findings_begin(&part) == 0);
    MUST(sums_of(part).count == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    free(data + 32);
    MUST(hf_findings_begin(&empty) == 0);
    MUST(sums_of(part).count == 401 && sums_of(part).places == 2);
    MUST(sums_of(before).count == 402 && sums_of(empty).count == 0);
    struct hf_found small = {.size = sizeof small.size + sizeof small.rule};
    MUST(hf_findings_next(part, &small) == 1 && small.rule != NULL && small.count == 0);
    in_child(part);
    hf_findings_end(before);
    hf_findings_end(part);
    hf_findings_end(empty);
}

int main(int count, char **words)
{
    struct hf_findings *part = NULL;
    const char *expected = count > 1 ? words[1] : "";
    hf_findings_end(NULL);
    MUST(hf_findings_begin(NULL) == -EINVAL);
    MUST(hf_findings_next(NULL, NULL) == -EINVAL);
    if (strcmp(expected, "diagnosed") == 0)
        diagnosed();
    else
        MUST(hf_findings_begin(&part) == (strcmp(expected, "counted") == 0 ? -ENOTSUP : -ENOSYS));
    puts("done");
    return 0;
}
