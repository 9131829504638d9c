/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the memory of the records, the file, and the records' lock. See report_file.h.
 *
 * Addresses are reserved for the largest report, and can be accessed as far as the report has
 * grown: in steps, which are what a process pays that locks its memory or limits its data. Before a
 * chunk of the file is used, the kernel is asked to back it (MADV_POPULATE_WRITE): on a full disk a
 * plain store would end the process with SIGBUS. The file's descriptor is closed at once, because
 * the program may close all descriptors and get its number for a file of its own; the file is
 * opened again, by its path, for each step, and no more once the process confines itself: a sandbox
 * may end it for that.
 *
 * The file never grows beyond the limit on the size of files: the kernel would send SIGXFSZ.
 */
#include "alloc/diagnose/report_file.h"

#include "alloc/base/uncancelled.h"
#include "alloc/heap/fork_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_WIPEONFORK
#    define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

enum {
    SPINS = 2000,
    NAPS = 2000,
    TRIES = 64,
    CHUNKS_MIN = 64,   /* of which addresses are reserved */
    ADDRESS_PART = 16, /* of a limit on addresses that these may take; twice, for a moment */
    STEP = 64,         /* chunks that memory grows by */
    STEP_OF_FILE = 256,
    STEP_OLD_KERNEL = 128, /* without MADV_POPULATE_WRITE a step is allocated at once */
    CHUNKS_CONFINED = 64   /* what a confined process may still record in its file: 1 MiB */
};

char *hf_report_base;
/* HF_REPORT_RECORDS_SYMBOL, for readers outside the process. Nothing here uses the exported name.
 */
extern char *hf_live_records __attribute__((alias("hf_report_base"), visibility("default")));
static uint32_t reserved;   /* chunks that there are addresses for */
static uint32_t accessible; /* of these: memory that can be accessed, or in the file */
static uint32_t chunks_max; /* that may be used; at most `reserved` */
static bool old_kernel;     /* or a sandbox: the file's chunks are allocated with each step */
static uint32_t current[HF_REPORT_TYPES]; /* the chunk that gets the next record of a type */
static uint32_t counts[HF_REPORT_TYPES];  /* records of a type, or bytes of strings and stacks */
static char path[PATH_MAX];
static struct stat identity;      /* of the file at `path` */
static bool refused;              /* this process may not have a file */
static atomic_bool lost;          /* the records are gone: somebody cut the file short */
static _Atomic(uintptr_t) holder; /* of the lock: a thread; 0: nobody */
static __thread uintptr_t own_frame
    __attribute__((tls_model("initial-exec"))); /* where this thread took it */
static atomic_bool stuck; /* somebody has waited in vain, and it has not been free since */
static atomic_bool confined;

const char *hf_report_path(void)
{
    return path;
}

/* ---- the lock ---- */

/* In a page of its own, which the kernel empties in a forked child. */
static atomic_bool *is_parent;
static void (*on_fork)(void);

void hf_report_on_fork(void (*in_child)(void))
{
    int saved_errno = errno;
    void *page =
        mmap(NULL, HF_REPORT_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, HF_REPORT_CHUNK, MADV_WIPEONFORK) == 0) {
        is_parent = page;
        on_fork = in_child;
        atomic_store(is_parent, true);
    }
    errno = saved_errno;
}

void hf_report_notice_fork(void)
{
    if (is_parent != NULL && !atomic_exchange_explicit(is_parent, true, memory_order_relaxed))
        on_fork();
}

/* Whether a handler runs on an alternate stack, whose place says nothing about order. */
static bool on_alternate_stack(void)
{
    stack_t stack;
    return atomic_load(&confined) || sigaltstack(NULL, &stack) != 0 ||
           (stack.ss_flags & SS_ONSTACK) != 0;
}

/* This thread holds the lock: either a signal handler has interrupted it, or the frame further in
 * that took the lock was left by longjmp(3), such as after its stack has overflowed. */
static bool take_over(uintptr_t frame)
{
    if (frame <= own_frame || on_alternate_stack())
        return false;
    own_frame = frame;
    return true;
}

bool hf_report_lock(void)
{
    const uintptr_t self = (uintptr_t)pthread_self();
    const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    const int saved_errno = errno;
    hf_report_notice_fork();
    for (int i = 0; i < SPINS + NAPS; i++) {
        uintptr_t nobody = atomic_load_explicit(&holder, memory_order_relaxed);
        if (nobody == self) {
            const bool taken = take_over(frame);
            errno = saved_errno;
            return taken;
        }
        own_frame = frame;
        if (nobody == 0 && atomic_compare_exchange_strong(&holder, &nobody, self)) {
            own_frame = frame;
            return true;
        }
        if (i < SPINS)
            continue;
        if (atomic_load(&stuck))
            return false;
        hf_gate_pause(50000); /* the holder has lost its processor, or writes the file */
        errno = saved_errno;
    }
    atomic_store(&stuck, true);
    return false;
}

void hf_report_unlock(void)
{
    atomic_store_explicit(&stuck, false, memory_order_relaxed);
    atomic_store_explicit(&holder, 0, memory_order_release);
}

void hf_report_drop(void)
{
    struct hf_report_header *header = hf_report_header();
    if (header != NULL)
        __atomic_add_fetch(&header->dropped, 1, __ATOMIC_RELAXED);
}

/* ---- memory ---- */

static size_t bytes_of(uint32_t chunks)
{
    return (size_t)chunks * HF_REPORT_CHUNK;
}

/* Addresses, which nothing can access yet. */
static char *reserve(uint32_t chunks)
{
    return mmap(NULL, bytes_of(chunks), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
}

static bool open_memory(char *memory, uint32_t chunks)
{
    return mprotect(memory, bytes_of(chunks), PROT_READ | PROT_WRITE) == 0;
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

static rlim_t limit_on(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

void hf_report_begin(void)
{
    static atomic_bool begun;
    int saved_errno = errno;
    if (atomic_exchange(&begun, true))
        return;
    const rlim_t part = limit_on(RLIMIT_AS) / ADDRESS_PART / HF_REPORT_CHUNK;
    reserved = part < CHUNKS_MIN             ? CHUNKS_MIN
               : part < HF_REPORT_CHUNKS_MAX ? (uint32_t)part
                                             : HF_REPORT_CHUNKS_MAX;
    char *memory = reserve(reserved);
    accessible = least(STEP, reserved);
    const bool good = memory != MAP_FAILED && open_memory(memory, accessible);
    errno = saved_errno;
    if (!good)
        return;
    chunks_max = reserved;
    struct hf_report_header *header = (struct hf_report_header *)memory;
    memcpy(header->magic, HF_REPORT_MAGIC, sizeof header->magic);
    header->version = HF_REPORT_VERSION;
    header->chunks = 1;
    __atomic_store_n(&hf_report_base, memory, __ATOMIC_RELEASE);
}

size_t hf_report_reserved(void)
{
    return bytes_of(reserved);
}

/* How many chunks a file may have. */
static uint32_t allowed_chunks(void)
{
    const rlim_t limit = limit_on(RLIMIT_FSIZE);
    return limit < bytes_of(reserved) ? (uint32_t)(limit / HF_REPORT_CHUNK) : reserved;
}

/* The file, unless `path` has become another file's, such as through a link that somebody else
 * placed there. Returns a descriptor or -1. */
static int reopen(off_t *size)
{
    struct stat status;
    const int file =
        hf_open_uncancelled(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0 && status.st_dev == identity.st_dev &&
        status.st_ino == identity.st_ino) {
        *size = status.st_size;
        return file;
    }
    hf_close_uncancelled(file);
    return -1;
}

/* Makes the file up to so many chunks larger, as far as it may be. Returns the number of its
 * chunks; 0: it stays as it is. */
static uint32_t lengthen(int file, uint32_t from, uint32_t step)
{
    const uint32_t to = least(from + step, allowed_chunks());
    if (to <= from)
        return 0;
    const off_t start = (off_t)bytes_of(from), end = (off_t)bytes_of(to);
    return (old_kernel ? posix_fallocate(file, start, end - start) : ftruncate(file, end)) == 0 ? to
                                                                                                : 0;
}

static uint32_t step_of_file(void)
{
    return old_kernel ? STEP_OLD_KERNEL : STEP_OF_FILE;
}

static uint32_t lengthen_file(uint32_t step)
{
    off_t size;
    const int file = reopen(&size);
    if (file < 0)
        return 0;
    const uint32_t chunks =
        size == (off_t)bytes_of(accessible) ? lengthen(file, accessible, step) : 0;
    hf_close_uncancelled(file);
    return chunks;
}

static uint32_t lengthen_memory(void)
{
    const uint32_t chunks = least(accessible + STEP, reserved);
    return open_memory(hf_report_base, chunks) ? chunks : 0;
}

/* Whether the system cannot back a chunk: an old kernel, or a sandbox. */
static bool is_unknown(int error)
{
    return error == EINVAL || error == EPERM || error == ENOSYS;
}

/* Whether a chunk can be stored into. */
static bool back(uint32_t number)
{
    const bool in_file = path[0] != '\0';
    int saved_errno = errno;
    if (number >= accessible) {
        const uint32_t chunks = in_file ? lengthen_file(step_of_file()) : lengthen_memory();
        accessible = chunks != 0 ? chunks : accessible;
    }
    const bool backed =
        number < accessible &&
        (!in_file || old_kernel || atomic_load(&confined) ||
         madvise(hf_report_base + bytes_of(number), HF_REPORT_CHUNK, MADV_POPULATE_WRITE) == 0 ||
         is_unknown(errno));
    errno = saved_errno;
    return backed;
}

static struct hf_report_chunk *chunk_at(uint32_t number)
{
    return (struct hf_report_chunk *)(hf_report_base + bytes_of(number));
}

static bool counts_bytes(enum hf_report_type type)
{
    return type == HF_REPORT_STRINGS || type == HF_REPORT_STACKS;
}

/* The chunk that has room for a record; NULL if there is none. */
static struct hf_report_chunk *chunk_for(enum hf_report_type type, size_t size)
{
    struct hf_report_header *header = hf_report_header();
    const size_t capacity = HF_REPORT_CHUNK - sizeof(struct hf_report_chunk);
    if (header == NULL || size > capacity)
        return NULL;
    struct hf_report_chunk *chunk = chunk_at(current[type]);
    if (current[type] != 0 && chunk->used + size <= capacity)
        return chunk;
    chunk = chunk_at(header->chunks);
    if (header->chunks >= chunks_max || !back(header->chunks))
        return NULL;
    chunk->type = type;
    chunk->used = 0;
    chunk->first = counts[type];
    current[type] = header->chunks;
    __atomic_store_n(&header->chunks, header->chunks + 1, __ATOMIC_RELEASE);
    return chunk;
}

void *hf_report_add(enum hf_report_type type, size_t size, uint32_t *number)
{
    struct hf_report_chunk *chunk = chunk_for(type, size);
    if (chunk == NULL) {
        hf_report_drop();
        return NULL;
    }
    if (number != NULL)
        *number = counts[type];
    void *record = (char *)(chunk + 1) + chunk->used;
    return memset(record, 0, size);
}

void hf_report_publish(enum hf_report_type type, size_t size)
{
    struct hf_report_chunk *chunk = chunk_at(current[type]);
    if (counts_bytes(type))
        counts[type] += (uint32_t)size;
    else /* a table of pairs is many records */
        counts[type] +=
            type == HF_REPORT_PAIRS ? (uint32_t)(size / sizeof(struct hf_report_pair)) : 1;
    __atomic_store_n(&chunk->used, chunk->used + (uint32_t)size, __ATOMIC_RELEASE);
}

bool hf_report_holds_stack(size_t size)
{
    return counts[HF_REPORT_STACKS] + size <= bytes_of(chunks_max) / 2 &&
           chunk_for(HF_REPORT_STACKS, size) != NULL;
}

uint32_t hf_report_string(const char *text, size_t length, const char **copy)
{
    const size_t most = HF_REPORT_CHUNK - sizeof(struct hf_report_chunk) - 1;
    uint32_t position;
    length = length < most ? length : most;
    char *bytes = hf_report_add(HF_REPORT_STRINGS, length + 1, &position);
    if (copy != NULL)
        *copy = bytes;
    if (bytes == NULL)
        return 0;
    memcpy(bytes, text, length);
    hf_report_publish(HF_REPORT_STRINGS, length + 1);
    return position + 1;
}

/* ---- the file ---- */

/* One more process of the directory: 0, -EMFILE if it has its maximum, or -ELOOP. */
static int enter_index(const char *directory)
{
    char name[PATH_MAX];
    struct stat status;
    if (snprintf(name, sizeof name, "%s/" HF_REPORT_INDEX, directory) >= (int)sizeof name)
        return -ENAMETOOLONG;
    int file =
        open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file < 0)
        return errno == ELOOP ? -ELOOP : 0;
    bool writable = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    (rlim_t)status.st_size < limit_on(RLIMIT_FSIZE);
    bool enters = !writable || write(file, "+", 1) != 1 || fstat(file, &status) != 0 ||
                  status.st_size <= HF_REPORT_PROCESSES_MAX;
    close(file);
    return enters ? 0 : -EMFILE;
}

static int make_file(const char *directory)
{
    for (int i = 0; i < TRIES; i++) {
        if (snprintf(path, sizeof path, "%s/%d-%d" HF_REPORT_SUFFIX, directory, (int)getpid(), i) >=
            (int)sizeof path)
            return -ENAMETOOLONG;
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file >= 0 || errno != EEXIST)
            return file >= 0 ? file : -errno;
    }
    return -EEXIST;
}

/* Writes the chunks in use, which gives them room on the disk: in one call, because a file system
 * takes much longer for each page that is first stored into through a mapping. */
static bool write_chunks(int file, uint32_t chunks)
{
    const size_t size = bytes_of(chunks);
    for (size_t done = 0; done < size;) {
        ssize_t written = write(file, hf_report_base + done, size - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        done += (size_t)written;
    }
    return true;
}

/* Maps the file, with the chunks in use and `*length` in all. What lies behind is accessible once
 * the file has grown. */
static char *map_file(int file, uint32_t chunks, uint32_t *length)
{
    if (allowed_chunks() <= chunks) {
        errno = EFBIG;
        return MAP_FAILED;
    }
    if (!write_chunks(file, chunks) || fstat(file, &identity) != 0)
        return MAP_FAILED;
    char *mapped = mmap(NULL, bytes_of(reserved), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return MAP_FAILED;
    int error = madvise(mapped, 1, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    old_kernel = is_unknown(error);
    if (error == 0 || old_kernel) {
        *length = lengthen(file, chunks, step_of_file());
        error = *length != 0 ? 0 : ENOSPC;
    }
    if (error == 0)
        return mapped;
    (void)munmap(mapped, bytes_of(reserved));
    errno = error == EFAULT ? ENOSPC : error;
    return MAP_FAILED;
}

static int to_file(const char *directory)
{
    struct hf_report_header *header = hf_report_header();
    if (header == NULL || path[0] != '\0')
        return 0;
    const int full = refused ? -EMFILE : enter_index(directory);
    if (full != 0) {
        refused = true;
        return full;
    }
    int file = make_file(directory);
    if (file < 0) {
        path[0] = '\0';
        return file;
    }
    const size_t size = bytes_of(reserved);
    uint32_t length = 0;
    char *mapped = map_file(file, header->chunks, &length);
    int error = mapped == MAP_FAILED ? errno : 0;
    (void)close(file);
    if (error == 0 &&
        mremap(mapped, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, hf_report_base) == MAP_FAILED) {
        error = errno;
        (void)munmap(mapped, size);
    }
    if (error != 0) {
        (void)unlink(path);
        path[0] = '\0';
    } else {
        accessible = length;
    }
    refused = error == EFBIG;
    return -error;
}

/* free(), which may have found something, is no cancellation point. */
int hf_report_to_file(const char *directory)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    const int error = to_file(directory);
    (void)pthread_setcancelstate(before, NULL);
    return error;
}

/* Gives the file's unused chunks back. */
static void shrink_file(uint32_t chunks)
{
    off_t size;
    const int file = reopen(&size);
    if (file < 0)
        return;
    if (size > (off_t)bytes_of(chunks))
        (void)ftruncate(file, (off_t)bytes_of(chunks));
    hf_close_uncancelled(file);
}

void hf_report_finish(void)
{
    int saved_errno = errno;
    struct hf_report_header *header = hf_report_header();
    if (header == NULL || path[0] == '\0' || atomic_load(&confined) || !hf_report_lock())
        return;
    /* One chunk stays for records that come later; more are not backed. */
    chunks_max = header->chunks;
    shrink_file(header->chunks);
    hf_report_unlock();
    errno = saved_errno;
}

bool hf_report_is_own(void)
{
    const struct hf_report_header *header = hf_report_header();
    return header != NULL && (atomic_load(&confined) || header->process == (uint32_t)getpid());
}

bool hf_report_is_confined(void)
{
    return atomic_load(&confined);
}

void hf_report_confine(void)
{
    const int saved_errno = errno;
    if (hf_report_lock()) {
        uint32_t chunks = hf_report_header()->chunks;
        const uint32_t most = chunks + CHUNKS_CONFINED;
        while (chunks < chunks_max && chunks < most && back(chunks))
            chunks++;
        if (path[0] != '\0') {
            accessible = chunks_max = chunks;
            shrink_file(chunks);
        }
        refused = true;
        hf_report_unlock();
    }
    atomic_store(&confined, true);
    errno = saved_errno;
}

bool hf_report_recover(const void *address)
{
    char *base = hf_report_base;
    if (base == NULL || (uintptr_t)address - (uintptr_t)base >= bytes_of(reserved) ||
        (path[0] == '\0' && !atomic_load(&lost)))
        return false;
    if (atomic_load(&lost))
        return true; /* another thread was faster */
    if (mmap(base, bytes_of(accessible), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    struct hf_report_header *header = (struct hf_report_header *)base;
    header->process = (uint32_t)getpid();
    header->chunks = chunks_max = 1;
    refused = true;
    atomic_store(&lost, true);
    path[0] = '\0';
    return true;
}

/* ---- fork ---- */

/* Removes a type's records. Its first chunk stays in use, the others are lost. */
static void forget(enum hf_report_type type)
{
    current[type] = 0;
    counts[type] = 0;
    for (uint32_t i = 1; i < hf_report_header()->chunks; i++) {
        struct hf_report_chunk *chunk = chunk_at(i);
        if (chunk->type != (uint32_t)type)
            continue;
        chunk->used = 0;
        if (current[type] == 0)
            current[type] = i;
        else
            chunk->type = HF_REPORT_UNUSED;
    }
}

void hf_report_in_child(void)
{
    int saved_errno = errno;
    struct hf_report_header *header = hf_report_header();
    hf_report_unlock();
    if (is_parent != NULL)
        atomic_store(is_parent, true);
    refused = atomic_load(&lost) || atomic_load(&confined);
    if (header == NULL)
        return;
    chunks_max = atomic_load(&lost) ? 1 : reserved;
    if (path[0] != '\0') {
        const size_t size = bytes_of(reserved);
        const uint32_t copied = least((header->chunks + STEP - 1) / STEP * STEP, reserved);
        char *copy = reserve(reserved);
        bool moved = copy != MAP_FAILED && open_memory(copy, copied);
        if (moved) {
            memcpy(copy, hf_report_base, bytes_of(header->chunks));
            moved = mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, hf_report_base) !=
                    MAP_FAILED;
        }
        path[0] = '\0';
        accessible = copied;
        if (!moved) { /* the parent's file must not be written: record nothing */
            (void)mmap(hf_report_base, bytes_of(copied), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            memset(current, 0, sizeof current);
            header->chunks = chunks_max = 1;
        }
    }
    forget(HF_REPORT_FINDINGS);
    forget(HF_REPORT_SAMPLES);
    forget(HF_REPORT_SUPPRESSED);
    header->dropped = 0;
    errno = saved_errno;
}
