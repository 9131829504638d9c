/*
 * Loads variants of a module, each in a child, and says how that went: one word a line.
 *
 * usage: loads MODULE SCRATCH [LIBRARY] < lines of "OFFSET MASK"
 *
 * Each line makes one variant: the byte at the offset is changed by the mask. LIBRARY, if there is
 * one, is loaded before.
 */
#include <homefree/route.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE_MAX_READ = 1 << 20, SECONDS = 60, REFUSED = 3, WRONG = 4 };
static char bytes[SIZE_MAX_READ];

static size_t read_all(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? read(file, bytes, sizeof bytes) : -1;
    close(file);
    return size > 0 ? (size_t)size : 0;
}

static bool write_all(const char *path, size_t size)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    const bool done = file >= 0 && write(file, bytes, size) == (ssize_t)size;
    return close(file) == 0 && done;
}

/* What the dynamic linker itself reads behind the module's end must not depend on who is there. So
 * the module comes below a large range that nobody can read, and no gap above has room for it. */
static void take_gaps(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const char *lowest = mmap(NULL, (size_t)8 << 30, PROT_NONE, flags, -1, 0), *gap;
    for (size_t size = (size_t)1 << 40; size >= 4 << 10; size >>= 2) {
        while ((gap = mmap(NULL, size, PROT_NONE, flags, -1, 0)) > lowest && gap != MAP_FAILED)
            ;
        lowest = gap != MAP_FAILED ? gap : lowest;
    }
}

static _Noreturn void load(const char *path)
{
    alarm(SECONDS);
    take_gaps();
    void *module = dlopen(path, RTLD_LAZY);
    int (*const answer)(void) =
        module != NULL ? (int (*)(void))(uintptr_t)dlsym(module, "answer") : NULL;
    if (answer == NULL)
        _exit(REFUSED);
    if (answer() != 42)
        _exit(WRONG);
    int (*const report)(struct hf_route_report *, hf_route_visitor *, void *) =
        (int (*)(struct hf_route_report *, hf_route_visitor *, void *))(uintptr_t)dlsym(
            RTLD_DEFAULT, "hf_route_report");
    struct hf_route_report totals = {.size = sizeof totals};
    if (report != NULL)
        report(&totals, NULL, NULL);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (argc > 3 && dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL) == NULL)) {
        fprintf(stderr, "loads: %s\n", argc < 3 ? "arguments are missing" : dlerror());
        return 2;
    }
    const size_t size = read_all(argv[1]);
    size_t offset;
    unsigned mask;
    while (scanf("%zu %u", &offset, &mask) == 2 && offset < size) {
        bytes[offset] = (char)(bytes[offset] ^ (char)mask);
        if (!write_all(argv[2], size))
            return 2;
        bytes[offset] = (char)(bytes[offset] ^ (char)mask);
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            load(argv[2]);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 2;
        unlink(argv[2]);
        if (WIFSIGNALED(status))
            printf("%s\n", strsignal(WTERMSIG(status)));
        else
            printf("%s\n", WEXITSTATUS(status) == 0         ? "loaded"
                           : WEXITSTATUS(status) == REFUSED ? "refused"
                                                            : "wrong");
    }
    return 0;
}
