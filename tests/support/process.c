/* Owns nothing, and uses nothing of homefree: its answers are a second opinion. */
#include "process.h"

#include "death.h"
#include "suite.h"

#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct user *load_user(const char *path, int mode)
{
    typedef const struct user *user_function(void);
    return ((user_function *)symbol_of(load(path, mode), "user"))();
}

const char *permissions_at(const void *address)
{
    static char found[8];
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    found[0] = '\0';
    while (found[0] == '\0' && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t start, end;
        char permissions[8];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &start, &end, permissions) == 3 &&
            (uintptr_t)address >= start && (uintptr_t)address < end)
            strcpy(found, permissions);
    }
    fclose(maps);
    return found;
}

static int check_relro(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int *objects = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO)
            continue;
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = (start + info->dlpi_phdr[i].p_memsz) & -page;
        for (start &= -page; start < end; start += page)
            ck_assert_msg(strcmp(permissions_at((void *)start), "r--p") == 0,
                          "%s: %#" PRIxPTR " is %s", info->dlpi_name, start,
                          permissions_at((void *)start));
        ++*objects;
    }
    return 0;
}

void assert_relro_is_read_only(void)
{
    int objects = 0;
    dl_iterate_phdr(check_relro, &objects);
    ck_assert_int_ge(objects, 2);
}

const char *object_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
}

static void hanging(int signal_number)
{
    static const char text[] = "the test hangs\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

bool objects_are_found(void)
{
    return dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL;
}

void need_found_objects(void)
{
    if (objects_are_found())
        return;
    printf("skipped: needs glibc 2.35\n");
    exit(SKIPPED);
}

void guard_against_hanging(unsigned seconds)
{
    signal(SIGALRM, hanging);
    alarm(patience(seconds));
}
