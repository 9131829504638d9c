/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See beneath.h. Owns the seats, each with a lock of its own, above all of jemalloc's; and the list
 * of the addresses that jemalloc has for its books, which only grows, under jemalloc's locks; and
 * what is reserved for its start.
 */
#include "alloc/pages/beneath.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"
#include "alloc/heap/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- seats ---- */

/* One thread may purge while another one takes pages; more would mostly wait for jemalloc's locks,
 * and for the kernel's. */
enum { SEATS = 2 };

static struct hf_beneath_seat {
    pthread_t sitter; /* atomic: nobody else's number becomes the caller's */
    void *data;       /* written while the heap starts */
    const void *fresh;
} seats[SEATS];
struct lock {
    pthread_mutex_t mutex;
} __attribute__((aligned(HF_FORK_LOCK_SIZE)));
static struct lock HF_FORK_LOCK locks[SEATS] = {{PTHREAD_MUTEX_INITIALIZER},
                                                {PTHREAD_MUTEX_INITIALIZER}};

/* The calling thread's; NULL if it has none. */
static struct hf_beneath_seat *find(void)
{
    const pthread_t self = pthread_self();
    for (size_t seat = 0; seat < SEATS; seat++)
        if (__atomic_load_n(&seats[seat].sitter, __ATOMIC_RELAXED) == self)
            return &seats[seat];
    return NULL;
}

static void set_sitter(struct hf_beneath_seat *seat, pthread_t sitter)
{
    if (seat != NULL)
        __atomic_store_n(&seat->sitter, sitter, __ATOMIC_RELAXED);
}

struct hf_beneath_seat *hf_beneath_sit(void)
{
    const pthread_t self = pthread_self();
    size_t seat = 0;
    while (seat < SEATS && pthread_mutex_trylock(&locks[seat].mutex) != 0)
        seat++;
    if (HF_UNLIKELY(seat == SEATS)) {
        seat = ((uintptr_t)self >> 12) % SEATS;
        pthread_mutex_lock(&locks[seat].mutex);
    }
    struct hf_beneath_seat *before = find();
    set_sitter(before, 0);
    set_sitter(&seats[seat], self);
    seats[seat].fresh = NULL;
    return before;
}

void hf_beneath_rise(struct hf_beneath_seat *before)
{
    struct hf_beneath_seat *seat = find();
    set_sitter(seat, 0);
    set_sitter(before, pthread_self());
    pthread_mutex_unlock(&locks[seat - seats].mutex);
}

bool hf_beneath_share(void *(*copy)(const void *data))
{
    const struct hf_beneath_seat *first = find();
    for (size_t seat = 0; seat < SEATS && first->data != NULL; seat++)
        if (seats[seat].data == NULL && (seats[seat].data = copy(first->data)) == NULL)
            return false;
    return true;
}

void hf_beneath_set_fresh(const void *at)
{
    find()->fresh = at;
}

const void *hf_beneath_fresh(void)
{
    return find()->fresh;
}

/* ---- what jemalloc calls (names.txt) ---- */

int hf_beneath_key_create(pthread_key_t *key, void (*destructor)(void *));
int hf_beneath_setspecific(pthread_key_t key, const void *data);
void *hf_beneath_getspecific(pthread_key_t key);
int hf_beneath_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int hf_beneath_atfork_in_child(void (*prepare)(void), void (*parent)(void), void (*child)(void));
char *hf_beneath_getenv(const char *name);
ssize_t hf_beneath_readlink(const char *path, char *buffer, size_t size);
long hf_beneath_syscall(long number, ...);
int hf_beneath_getaffinity(pid_t process, size_t size, void *set);
long hf_beneath_sysconf(int name);
void *hf_beneath_mmap(void *hint, size_t size, int protection, int flags, int file, off_t offset);
int hf_beneath_munmap(void *at, size_t size);

int hf_beneath_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    (void)destructor;
    *key = 0;
    return 0;
}

int hf_beneath_setspecific(pthread_key_t key, const void *data)
{
    (void)key;
    find()->data = (void *)(uintptr_t)data;
    return 0;
}

void *hf_beneath_getspecific(pthread_key_t key)
{
    (void)key;
    return find()->data;
}

/* No thread is inside jemalloc when the process is copied: the gate (fork_gate.h) sees to that. */
int hf_beneath_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}

/* But the list of thread data, where there is one, has those of threads that the child lacks. */
static void (*in_child)(void); /* written as jemalloc starts */

int hf_beneath_atfork_in_child(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent;
    in_child = child;
    return 0;
}

void hf_beneath_reset_in_child(void)
{
    if (in_child == NULL)
        return;
    struct hf_beneath_seat *before = hf_beneath_sit();
    in_child();
    hf_beneath_rise(before);
}

/* No configuration but ours. */
char *hf_beneath_getenv(const char *name)
{
    (void)name;
    return NULL;
}

/* It opens two files as it starts, to ask whether the system overcommits, as it does unless
 * somebody has forbidden it (then region.c fails), and about huge pages, which present.c asks
 * itself. Each file holds a '0'. */
long hf_beneath_syscall(long number, ...)
{
    va_list arguments;
    if (number != SYS_read)
        return 0;
    va_start(arguments, number);
    (void)va_arg(arguments, int);
    *va_arg(arguments, char *) = '0';
    va_end(arguments);
    return 1;
}

/* It counts the processors as it starts, when a sandbox may end the process for that. There are
 * two: it spins before it sleeps. */
int hf_beneath_getaffinity(pid_t process, size_t size, void *set)
{
    (void)process;
    memset(set, 0, size);
    *(unsigned char *)set = 3;
    return 0;
}

long hf_beneath_sysconf(int name)
{
    return name == _SC_PAGESIZE ? sysconf(name) : 2;
}

ssize_t hf_beneath_readlink(const char *path, char *buffer, size_t size)
{
    (void)path, (void)buffer, (void)size;
    errno = ENOENT;
    return -1;
}

/* While jemalloc starts, which one thread alone does: 2 MiB at a multiple of that, and some pages.
 */
static char *reserve, *reserve_end;

bool hf_beneath_reserve(void)
{
    enum { SMALL = 256 << 10 };
    const size_t size = HF_PAGE_2M + SMALL;
    void *at = hf_region_map_aligned(size, HF_PAGE_2M, PROT_READ | PROT_WRITE);
    if (at == MAP_FAILED)
        return false;
    reserve = at;
    reserve_end = reserve + size;
    return true;
}

void hf_beneath_release(void)
{
    if (reserve != reserve_end)
        (void)hf_region_unmap(reserve, (size_t)(reserve_end - reserve));
    reserve = reserve_end = NULL;
}

static void *map(void *hint, size_t size, int protection, int flags)
{
    if (HF_LIKELY((size_t)(reserve_end - reserve) < size) || hint != NULL)
        return hf_region_map(hint, size, protection, flags);
    if (size % HF_PAGE_2M != 0)
        return reserve_end -= size;
    reserve += size;
    return reserve - size;
}

static struct {
    char *at;
    size_t size;
} books[64] HF_APART;
static size_t books_count, books_more; /* atomic; bytes that have no place in the list */

void *hf_beneath_mmap(void *hint, size_t size, int protection, int flags, int file, off_t offset)
{
    (void)file, (void)offset;
    void *at = map(hint, size, protection, flags);
    if (at == MAP_FAILED || (flags & MAP_FIXED) != 0)
        return at;
    const size_t i = __atomic_fetch_add(&books_count, 1, __ATOMIC_RELAXED);
    if (i < sizeof books / sizeof books[0]) {
        books[i].size = size;
        __atomic_store_n(&books[i].at, at, __ATOMIC_RELEASE);
    } else {
        __atomic_add_fetch(&books_more, size, __ATOMIC_RELAXED);
    }
    return at;
}

/* What jemalloc maps for a trial, and what it has too much for an alignment, at one end. */
int hf_beneath_munmap(void *at, size_t size)
{
    for (size_t i = 0; i < sizeof books / sizeof books[0]; i++) {
        if (books[i].at == NULL || (char *)at < books[i].at ||
            (char *)at >= books[i].at + books[i].size)
            continue;
        books[i].size -= size;
        if (at == books[i].at)
            __atomic_store_n(&books[i].at, books[i].size != 0 ? books[i].at + size : NULL,
                             __ATOMIC_RELEASE);
    }
    return hf_region_unmap(at, size);
}

static uint64_t resident(char *at, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char present[256];
    uint64_t bytes = 0;
    for (size_t piece; size != 0; at += piece, size -= piece) {
        piece = size < sizeof present * page ? size : sizeof present * page;
        if (mincore(at, piece, present) != 0)
            continue;
        for (size_t i = 0; i < piece / page; i++)
            bytes += (present[i] & 1) * page;
    }
    return bytes;
}

uint64_t hf_beneath_resident(void)
{
    uint64_t bytes = __atomic_load_n(&books_more, __ATOMIC_RELAXED);
    for (size_t i = 0; i < sizeof books / sizeof books[0]; i++) {
        char *at = __atomic_load_n(&books[i].at, __ATOMIC_ACQUIRE);
        if (at != NULL)
            bytes += resident(at, books[i].size);
    }
    return bytes;
}
