/* SPDX-License-Identifier: 0BSD */
/*
 * A reader of the registry in one file, which needs allocator_registry.h and libc alone. It is a
 * program that loads files, lists the members of the process, and sends a block of each home; or,
 * compiled with -DREADER_PRELOAD, a library that sends home whatever a program and its libraries
 * free by the names of libc. README.md has the commands.
 *
 * Owns the list of members, which grows and never shrinks: a number is stored after its entry, so
 * finding an owner takes no lock. It grows inside of dl_iterate_phdr() alone, which runs under the
 * dynamic linker's lock. The objects of members are kept loaded.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "allocator_registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64, TEXT_MAX = 64, NAME_MAX_SIZE = 4096 };

struct member {
    const struct allocator_registry *registry;
    const char *object;
};
static struct member members[MEMBERS_MAX];
static unsigned members_count;

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

/* One look at all objects. `kept`: the name of one that is kept loaded since the last look;
 * `wanted`: of one that must be before its members may be asked. Both are "" for none, as is the
 * name of the program, which stays. `incomplete`: a note leads to no member; its object is not
 * relocated yet, or it is wrong. */
struct look {
    char kept[NAME_MAX_SIZE], wanted[NAME_MAX_SIZE];
    int incomplete;
};

static void add(const struct dl_phdr_info *info, const struct allocator_registry *registry,
                struct look *look)
{
    const char *name = info->dlpi_name;
    for (unsigned i = 0; i < members_count; i++)
        if (members[i].registry == registry)
            return;
    if (members_count == MEMBERS_MAX)
        return;
    if (strcmp(name, look->kept) == 0 || name[0] == '\0') {
        members[members_count] = (struct member){registry, name[0] != '\0' ? name : "the program"};
        __atomic_store_n(&members_count, members_count + 1, __ATOMIC_RELEASE);
    } else if (look->wanted[0] == '\0' && strlen(name) < sizeof look->wanted) {
        strcpy(look->wanted, name);
    }
}

/* Where the object's ELF header is in memory; 0 if it is not. */
static uintptr_t header_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_offset == 0)
            return info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    return 0;
}

static void look_at_notes(const struct dl_phdr_info *info, const ElfW(Phdr) *segment,
                          struct look *look)
{
    const uintptr_t notes = info->dlpi_addr + segment->p_vaddr;
    const size_t size = segment->p_memsz, align = segment->p_align == 8 ? 8 : 4;
    if (notes % 4 != 0 || !lies_in(info, notes, size, PF_R) || !can_read(notes, size))
        return;
    for (size_t at = 0; size - at >= sizeof(ElfW(Nhdr));) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        const size_t left = size - at;
        const size_t contents = (sizeof *note + (size_t)note->n_namesz + align - 1) & -align;
        const size_t end = (contents + (size_t)note->n_descsz + align - 1) & -align;
        if (contents > left || note->n_descsz > left - contents)
            return;
        uintptr_t numbers[2]; /* signed, but only added */
        if (note->n_type == ALLOCATOR_REGISTRY_TYPE && note->n_descsz == sizeof numbers &&
            note->n_namesz == sizeof ALLOCATOR_REGISTRY_OWNER &&
            memcmp(note + 1, ALLOCATOR_REGISTRY_OWNER, sizeof ALLOCATOR_REGISTRY_OWNER) == 0) {
            memcpy(numbers, (const char *)note + contents, sizeof numbers);
            const void *registry =
                (const void *)(header_of(info) + numbers[0] - numbers[1] - sizeof numbers[0]);
            if (is_member(info, registry))
                add(info, registry, look);
            else
                look->incomplete = 1;
        }
        if (end >= left)
            return;
        at += end;
    }
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            look_at_notes(info, &info->dlpi_phdr[i], context);
    return 0;
}

/* How many threads are in dl_iterate_phdr() here, and in fork(). */
static int iterating, forking;
static __thread __attribute__((tls_model("initial-exec"))) int is_iterating, is_looking;

/* As dl_iterate_phdr(); 0 without a call while the process forks: the child would wait for ever for
 * the lock of a thread that it does not have. */
static int iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context)
{
    const int was_iterating = is_iterating;
    is_iterating = 1;
    __atomic_fetch_add(&iterating, 1, __ATOMIC_SEQ_CST);
    const int may = __atomic_load_n(&forking, __ATOMIC_SEQ_CST) == 0;
    if (may)
        dl_iterate_phdr(visit, context);
    __atomic_fetch_sub(&iterating, 1, __ATOMIC_SEQ_CST);
    is_iterating = was_iterating;
    return may;
}

/* Nobody who is waited for here waits for this thread, but itself, in a signal handler. */
static void before_fork(void)
{
    __atomic_fetch_add(&forking, 1, __ATOMIC_SEQ_CST);
    while (!is_iterating && __atomic_load_n(&iterating, __ATOMIC_SEQ_CST) != 0)
        sched_yield();
}

static void in_parent(void)
{
    __atomic_fetch_sub(&forking, 1, __ATOMIC_SEQ_CST);
}

static void in_child(void)
{
    iterating = is_iterating;
    forking = 0;
}

__attribute__((constructor)) static void start(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static int read_loads(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(unsigned long long *)context = info->dlpi_adds;
    return 1;
}

/*
 * Looks for members that have been loaded since the last call. One that another thread is loading
 * is waited for, by the lock that dlopen() takes: its functions need relocation as much as its
 * structure, and what this thread frees may be a block of it. So an object's constructors must not
 * wait for a thread that frees. The lock may not be waited for inside of dl_iterate_phdr().
 */
static void find_members(void)
{
    static unsigned long long seen;
    unsigned long long loads = 0;
    /* Inside of its dlopen() here, a thread may free. */
    if (is_looking || !iterate(read_loads, &loads) ||
        loads == __atomic_load_n(&seen, __ATOMIC_ACQUIRE))
        return;
    struct look look = {.kept = ""};
    int has_looked;
    is_looking = 1;
    for (;;) {
        look.wanted[0] = '\0';
        look.incomplete = 0;
        has_looked = iterate(look_at_object, &look);
        if (look.wanted[0] == '\0' || dlopen(look.wanted, RTLD_LAZY | RTLD_NOLOAD) == NULL)
            break;
        strcpy(look.kept, look.wanted);
    }
    is_looking = 0;
    if (has_looked && !look.incomplete && look.wanted[0] == '\0')
        __atomic_store_n(&seen, loads, __ATOMIC_RELEASE);
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
