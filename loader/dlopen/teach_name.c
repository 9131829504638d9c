/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dynamic linker knows a loaded object by its soname, and by the names under which it was
 * searched for; it learns a name when a search ends at the object's file. dlopen() hooks search in
 * its place and hand over a path. Where the soname is another, the name would stay unknown, and a
 * later dlopen() or DT_NEEDED of that name would fail that succeeds without homefree.
 *
 * So an object is opened, and closed at once, that needs the name and has the directory for its
 * RPATH. It is written here: no code, no symbols, two strings. Owns nothing; any thread.
 */
#include "loader/dlopen/teach_name.h"

#include "alloc/base/uncancelled.h"
#include "alloc/heap/internal.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { NEEDED, SEARCHED, STRINGS, STRINGS_SIZE, SYMBOLS, SYMBOL_SIZE, HASH, END, ENTRIES };

/* The file: an address is an offset. */
struct needing {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[3];
    ElfW(Dyn) dynamic[ENTRIES];
    ElfW(Sym) symbols[1];
    uint32_t hash[4];
    char strings[];
};

/* `size`: of the whole. The strings are an empty one, the name and the directory. */
static void fill(struct needing *file, size_t size, const char *name, const char *directory,
                 size_t directory_length)
{
    extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));
    const size_t name_size = strlen(name) + 1;
    memset(file, 0, size);
    file->header = __ehdr_start; /* for the same machine */
    file->header.e_type = ET_DYN;
    file->header.e_entry = file->header.e_shoff = 0;
    file->header.e_shnum = file->header.e_shstrndx = 0;
    file->header.e_phoff = offsetof(struct needing, segments);
    file->header.e_phnum = sizeof file->segments / sizeof file->segments[0];
    /* 64 KiB: the largest page that Linux has. */
    file->segments[0] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                     .p_flags = PF_R | PF_W,
                                     .p_filesz = size,
                                     .p_memsz = size,
                                     .p_align = 65536};
    file->segments[1] = (ElfW(Phdr)){.p_type = PT_DYNAMIC,
                                     .p_flags = PF_R | PF_W,
                                     .p_offset = offsetof(struct needing, dynamic),
                                     .p_vaddr = offsetof(struct needing, dynamic),
                                     .p_filesz = sizeof file->dynamic,
                                     .p_memsz = sizeof file->dynamic,
                                     .p_align = sizeof(uint64_t)};
    file->segments[2] = (ElfW(Phdr)){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
    file->dynamic[NEEDED] = (ElfW(Dyn)){DT_NEEDED, {1}};
    file->dynamic[SEARCHED] = (ElfW(Dyn)){DT_RPATH, {1 + name_size}};
    file->dynamic[STRINGS] = (ElfW(Dyn)){DT_STRTAB, {offsetof(struct needing, strings)}};
    file->dynamic[STRINGS_SIZE] = (ElfW(Dyn)){DT_STRSZ, {size - offsetof(struct needing, strings)}};
    file->dynamic[SYMBOLS] = (ElfW(Dyn)){DT_SYMTAB, {offsetof(struct needing, symbols)}};
    file->dynamic[SYMBOL_SIZE] = (ElfW(Dyn)){DT_SYMENT, {sizeof file->symbols[0]}};
    file->dynamic[HASH] = (ElfW(Dyn)){DT_HASH, {offsetof(struct needing, hash)}};
    file->hash[0] = file->hash[1] = 1;
    memcpy(file->strings + 1, name, name_size);
    memcpy(file->strings + 1 + name_size, directory, directory_length);
}

void hf_teach_name(hf_dlopen_function *original, const char *name, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || strcmp(slash + 1, name) != 0 ||
        strcspn(path, "$:") < (size_t)(slash - path))
        return;
    const int saved_errno = errno;
    const size_t length = (size_t)(slash - path);
    const size_t size = sizeof(struct needing) + 1 + strlen(name) + 1 + length + 1;
    struct rlimit limit; /* on files, of which this is one: the kernel would send SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size)
        return;
    struct needing *file = hf_malloc(size);
    const int descriptor = file != NULL ? memfd_create("homefree", MFD_CLOEXEC) : -1;
    if (descriptor >= 0) {
        char opened[32];
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", descriptor);
        fill(file, size, name, path, length);
        void *handle = hf_write_uncancelled(descriptor, file, size) == (ssize_t)size
                           ? original(opened, RTLD_LAZY)
                           : NULL;
        if (handle != NULL)
            dlclose(handle);
        hf_close_uncancelled(descriptor);
    }
    hf_free(file);
    errno = saved_errno;
}
