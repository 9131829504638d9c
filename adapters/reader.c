/* SPDX-License-Identifier: 0BSD */
/*
 * A reader of the registry in one file, which needs allocator_registry.h and libc alone. It is a
 * program that loads files, lists the members of the process, and sends a block of each home; or,
 * compiled with -DREADER_PRELOAD, a library that sends home whatever a program and its libraries
 * free by the names of libc. README.md has the commands.
 *
 * Owns the list of members, which grows and never shrinks: a number is stored after its entry, so
 * finding an owner takes no lock. The objects of members are kept loaded.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "allocator_registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64, TEXT_MAX = 64 };

struct member {
    const struct allocator_registry *registry;
    const char *object;
};
static struct member members[MEMBERS_MAX];
static unsigned members_count;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding members: nothing that a file says is believed ---- */

/* Whether [address, address + size) lies in one loaded segment with these rights. */
static int lies_in(const struct dl_phdr_info *info, uintptr_t address, size_t size, unsigned rights)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t offset = address - info->dlpi_addr - segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & rights) == rights &&
            offset < segment->p_memsz && size <= segment->p_memsz - offset)
            return 1;
    }
    return 0;
}

/* Whether the kernel can read these bytes: a segment may go on behind the end of its file. */
static int can_read(uintptr_t address, size_t size)
{
    for (uintptr_t page = address & -(uintptr_t)4096; page < address + size; page += 4096) {
        char byte;
        const struct iovec to = {&byte, 1}, from = {(void *)(page > address ? page : address), 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1 && errno == EFAULT)
            return 0;
    }
    return 1;
}

static int is_text(const struct dl_phdr_info *info, const char *text)
{
    for (int i = 0; i < TEXT_MAX; i++) {
        const uintptr_t at = (uintptr_t)text + i;
        if (!lies_in(info, at, 1, PF_R) || ((i == 0 || at % 4096 == 0) && !can_read(at, 1)))
            return 0;
        if (text[i] == '\0')
            return i != 0;
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    }
    return 0;
}

static int is_code(const struct dl_phdr_info *info, uintptr_t function, int needed)
{
    return function != 0 ? lies_in(info, function, 1, PF_X) : !needed;
}

static int is_member(const struct dl_phdr_info *info, const struct allocator_registry *registry)
{
    const uintptr_t address = (uintptr_t)registry;
    return address % sizeof(void *) == 0 && lies_in(info, address, sizeof *registry, PF_R) &&
           can_read(address, sizeof *registry) && registry->version == ALLOCATOR_REGISTRY_VERSION &&
           registry->size >= sizeof *registry && lies_in(info, address, registry->size, PF_R) &&
           is_text(info, registry->name) &&
           (registry->release == NULL || is_text(info, registry->release)) &&
           is_code(info, (uintptr_t)registry->owns, 1) &&
           is_code(info, (uintptr_t)registry->free_block, 1) &&
           is_code(info, (uintptr_t)registry->usable_size, 1) &&
           is_code(info, (uintptr_t)registry->resize, 0) &&
           is_code(info, (uintptr_t)registry->allocate, 0) &&
           is_code(info, (uintptr_t)registry->ready, 0) &&
           is_code(info, (uintptr_t)registry->walk, 0) &&
           is_code(info, (uintptr_t)registry->trim, 0) &&
           is_code(info, (uintptr_t)registry->statistics, 0);
}

/* Objects of members that are kept loaded, and one that is to be. dlopen() takes a lock that may
 * not be waited for inside dl_iterate_phdr(). `finding` guards both. */
static const char *kept[MEMBERS_MAX];
static unsigned kept_count;
static char wanted[4096];

static const char *kept_name(const char *name)
{
    for (unsigned i = 0; i < kept_count; i++)
        if (strcmp(kept[i], name) == 0)
            return kept[i];
    return NULL;
}

static void add(const struct dl_phdr_info *info, const struct allocator_registry *registry)
{
    for (unsigned i = 0; i < members_count; i++)
        if (members[i].registry == registry)
            return;
    if (members_count == MEMBERS_MAX)
        return;
    /* The program itself stays; what else cannot be kept is no member for us. */
    const char *object = info->dlpi_name[0] != '\0' ? kept_name(info->dlpi_name) : "the program";
    if (object == NULL) {
        if (wanted[0] == '\0' && strlen(info->dlpi_name) < sizeof wanted)
            strcpy(wanted, info->dlpi_name);
        return;
    }
    members[members_count] = (struct member){registry, object};
    __atomic_store_n(&members_count, members_count + 1, __ATOMIC_RELEASE);
}

/* Result: whether the wanted object is kept from now on. */
static int keep_wanted(void)
{
    if (wanted[0] == '\0' || kept_count == MEMBERS_MAX ||
        dlopen(wanted, RTLD_LAZY | RTLD_NOLOAD) == NULL)
        return 0;
    kept[kept_count] = strdup(wanted);
    return kept[kept_count] != NULL && ++kept_count != 0;
}

/* Result: whether a note leads to no member: its object is not relocated yet, or it is wrong. */
static int look_at_notes(const struct dl_phdr_info *info, const ElfW(Phdr) *segment)
{
    int incomplete = 0;
    const uintptr_t notes = info->dlpi_addr + segment->p_vaddr;
    const size_t size = segment->p_memsz, align = segment->p_align == 8 ? 8 : 4;
    if (notes % 4 != 0 || !lies_in(info, notes, size, PF_R) || !can_read(notes, size))
        return 0;
    for (size_t at = 0; size - at >= sizeof(ElfW(Nhdr));) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        const size_t left = size - at;
        const size_t contents = (sizeof *note + (size_t)note->n_namesz + align - 1) & -align;
        const size_t end = (contents + (size_t)note->n_descsz + align - 1) & -align;
        if (contents > left || note->n_descsz > left - contents)
            return incomplete;
        intptr_t number;
        if (note->n_type == ALLOCATOR_REGISTRY_TYPE && note->n_descsz == sizeof number &&
            note->n_namesz == sizeof ALLOCATOR_REGISTRY_OWNER &&
            memcmp(note + 1, ALLOCATOR_REGISTRY_OWNER, sizeof ALLOCATOR_REGISTRY_OWNER) == 0) {
            memcpy(&number, (const char *)note + contents, sizeof number);
            const void *registry = (const void *)((uintptr_t)note + contents + (uintptr_t)number);
            if (is_member(info, registry))
                add(info, registry);
            else
                incomplete = 1;
        }
        if (end >= left)
            return incomplete;
        at += end;
    }
    return incomplete;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            *(int *)context |= look_at_notes(info, &info->dlpi_phdr[i]);
    return 0;
}

static int read_loads(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(unsigned long long *)context = info->dlpi_adds;
    return 1;
}

/* Looks for members that have been loaded since the last call. While an object is being loaded, by
 * the caller or another thread, the next call looks again. */
static void find_members(void)
{
    static unsigned long long seen;
    unsigned long long loads = 0;
    dl_iterate_phdr(read_loads, &loads);
    if (loads == __atomic_load_n(&seen, __ATOMIC_ACQUIRE) || pthread_mutex_trylock(&finding) != 0)
        return;
    int incomplete = 0;
    do {
        wanted[0] = '\0';
        dl_iterate_phdr(look_at_object, &incomplete);
    } while (keep_wanted());
    if (!incomplete)
        __atomic_store_n(&seen, loads, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&finding);
}

/* The member that has an address, or NULL. */
static const struct member *owner_of(const void *address)
{
    const unsigned count = __atomic_load_n(&members_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++)
        if (members[i].registry->owns(address) != ALLOCATOR_REGISTRY_NOT_MINE)
            return &members[i];
    return NULL;
}

#ifndef READER_PRELOAD

/* ---- the program ---- */

static const char *describe(int answer)
{
    static const char *const words[] = {"not mine", "a block", "inside of a block", "no block",
                                        "mine"};
    return answer >= 0 && answer <= ALLOCATOR_REGISTRY_MINE ? words[answer] : "mine";
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++)
        if (dlopen(arguments[i], RTLD_NOW) == NULL) {
            fprintf(stderr, "reader: %s\n", dlerror());
            return 1;
        }
    find_members();
    for (unsigned i = 0; i < members_count; i++) {
        const struct allocator_registry *registry = members[i].registry;
        const char *release = registry->release != NULL ? registry->release : "(no release)";
        printf("%s %s in %s", registry->name, release, members[i].object);
        void *block = registry->allocate != NULL && (registry->ready == NULL || registry->ready())
                          ? registry->allocate(100, 0)
                          : NULL;
        if (block != NULL) {
            const struct member *owner = owner_of(block);
            if (owner != &members[i]) {
                printf("\nreader: %s does not know its own block\n", registry->name);
                return 1;
            }
            printf(": %s of %zu bytes, sent home", describe(registry->owns(block)),
                   registry->usable_size(block));
            owner->registry->free_block(block);
        }
        printf("\n");
    }
    return 0;
}

#else

/* ---- the library ---- */

#    include <stdlib.h>

extern void __libc_free(void *block);
extern void *__libc_realloc(void *block, size_t size);

static const struct allocator_registry *foreign(const void *block)
{
    if (block == NULL)
        return NULL;
    const int saved_errno = errno;
    find_members();
    const struct member *owner = owner_of(block);
    errno = saved_errno;
    return owner != NULL ? owner->registry : NULL;
}

/* The same for one more function, which has no name in libc for itself. */
size_t malloc_usable_size(void *block)
{
    static size_t (*original)(void *);
    const struct allocator_registry *owner = foreign(block);
    if (owner != NULL)
        return owner->usable_size(block);
    if (original == NULL)
        *(void **)&original = dlsym(RTLD_NEXT, "malloc_usable_size");
    return original(block);
}

void free(void *block)
{
    const struct allocator_registry *owner = foreign(block);
    if (owner == NULL)
        __libc_free(block);
    else if (owner->ready == NULL || owner->ready())
        owner->free_block(block); /* otherwise it is leaked: nobody else may be called for it */
}

void *realloc(void *block, size_t size)
{
    const struct allocator_registry *owner = foreign(block);
    if (owner == NULL)
        return __libc_realloc(block, size);
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (owner->resize != NULL)
        return owner->resize(block, size);
    void *moved = malloc(size);
    const size_t old = owner->usable_size(block);
    if (moved != NULL) {
        memcpy(moved, block, old < size ? old : size);
        free(block);
    }
    return moved;
}

void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

#endif
