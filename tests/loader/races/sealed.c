/*
 * See sealed.h.
 */
#include "sealed.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sealed find_sealed(void)
{
    Dl_info info;
    struct link_map *map;
    struct stat status;
    struct sealed sealed = {NULL, 0};
    if (dladdr1((const void *)(uintptr_t)hf_malloc, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        exit(2);
    int file = open(map->l_name, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0)
        exit(2);
    const char *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (image == MAP_FAILED)
        exit(2);
    close(file);
    const ElfW(Ehdr) *header = (const void *)image;
    const ElfW(Shdr) *sections = (const void *)(image + header->e_shoff);
    const char *names = image + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, "hf_sealed") == 0)
            sealed =
                (struct sealed){(char *)(map->l_addr + sections[i].sh_addr), sections[i].sh_size};
    munmap((void *)(uintptr_t)image, (size_t)status.st_size);
    if (sealed.size == 0) {
        fprintf(stderr, "libhomefree has no sealed tables\n");
        exit(EXIT_FAILURE);
    }
    return sealed;
}

static uintptr_t read_hex(const char **at)
{
    uintptr_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uintptr_t)(c - 'a' + 10);
        else
            return value;
    }
}

bool is_sealed(const struct sealed *sealed)
{
    static _Thread_local char text[1 << 18];
    size_t length = 0;
    ssize_t got;
    const uintptr_t first = (uintptr_t)sealed->start, last = first + sealed->size;
    uintptr_t covered = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && length < sizeof text - 1 &&
           (got = read(file, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    text[length] = '\0';
    for (const char *at = text; at != NULL && *at != '\0';) {
        uintptr_t start = read_hex(&at);
        at++;
        uintptr_t end = read_hex(&at);
        if (start < last && end > first) {
            if (strncmp(at, " r--p ", 6) != 0)
                return false;
            covered += (end < last ? end : last) - (start > first ? start : first);
        }
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return covered == sealed->size;
}
