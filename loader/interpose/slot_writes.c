/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the slot update's state: the loader's lock guards it (slot_writes.h). While slots change,
 * nothing here calls a function that the change could affect, and nothing is allocated.
 *
 * Protection: an object's RELRO range is writable only while that object's slots are written, and
 * read-only again before the next object. An update of many objects in a process with one thread
 * writes through /proc/self/mem instead: this writes to read-only pages in a fifth of the time and
 * leaves them protected. With more threads it is not used, because the kernel does not guarantee
 * that another thread never sees half a pointer. Every call is checked: an object that cannot be
 * made writable is refused; one that cannot be protected again ends the process.
 *
 * Opened ranges get PROT_WRITE alone, which the processor takes for reading and writing too. With
 * PROT_READ as well they would be merged with the variables that follow, and split off again when
 * they are closed, which is half of what the two calls cost.
 */
#include "loader/interpose/slot_writes.h"

#include "alloc/base/apart.h"
#include "alloc/base/fatal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Slots that were unresolved when they were written. A thread inside the resolver at that moment
 * may have overwritten the new value, so they are checked again at the end of the update. */
#define UNRESOLVED_MAX 1024
static struct {
    void **address;
    void *value;
} unresolved[UNRESOLVED_MAX] HF_APART;
static size_t unresolved_count;

/* From glibc 2.32 on; weak, so that libhomefree loads on older versions. */
extern char hf_libc_single_threaded __asm__("__libc_single_threaded")
    __attribute__((weak, visibility("default")));

/* /proc/self/mem during an update in a single-threaded process; otherwise -1. */
static int proc_mem = -1;

bool hf_write_is_single_threaded(void)
{
    return &hf_libc_single_threaded != NULL && hf_libc_single_threaded;
}

/* Returns whether the other threads that the process had are gone, which libc does not tell. */
static bool is_last_thread(void)
{
    _Alignas(struct dirent64) char entries[512];
    const int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const long size =
        directory >= 0 ? syscall(SYS_getdents64, directory, entries, sizeof entries) : -1;
    size_t count = 0;
    const struct dirent64 *entry;
    for (long at = 0; at < size; at += entry->d_reclen) {
        entry = (const void *)(entries + at);
        count += entry->d_name[0] != '.';
    }
    if (directory >= 0)
        close(directory);
    return count == 1;
}

/* Reads a word before anything is written: under an emulator, addresses may mean something else. */
static void open_proc_mem(void)
{
    const uintptr_t word = (uintptr_t)&word;
    uintptr_t seen = 0;
    proc_mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (proc_mem < 0)
        return;
    if (pread(proc_mem, &seen, sizeof seen, (off_t)word) == sizeof seen && seen == word)
        return;
    close(proc_mem);
    proc_mem = -1;
}

void hf_write_begin(bool many)
{
    unresolved_count = 0;
    if (many && (hf_write_is_single_threaded() || is_last_thread()))
        open_proc_mem();
}

void hf_write_end(void)
{
    if (proc_mem >= 0)
        close(proc_mem);
    proc_mem = -1;
    for (size_t i = 0; i < unresolved_count; i++)
        if (__atomic_load_n(unresolved[i].address, __ATOMIC_ACQUIRE) != unresolved[i].value)
            __atomic_store_n(unresolved[i].address, unresolved[i].value, __ATOMIC_RELEASE);
}

static bool protect(const struct hf_object *object, int protection)
{
    return mprotect((void *)object->relro_start, object->relro_size, protection) == 0;
}

bool hf_write_is_allowed(struct hf_writer *writer, void **slot)
{
    if (writer->object->writable_count == 0)
        hf_object_segments(writer->object);
    return hf_object_writable(writer->object, (uintptr_t)slot);
}

static bool is_in_relro(const struct hf_writer *writer, void **slot)
{
    return (uintptr_t)slot - writer->object->relro_start < writer->object->relro_size;
}

bool hf_write_open(struct hf_writer *writer, void **slot)
{
    if (!is_in_relro(writer, slot) || writer->opened)
        return true;
    if (writer->error != 0)
        return false;
    if (!protect(writer->object, PROT_WRITE)) {
        writer->error = -errno;
        return false;
    }
    writer->opened = true;
    return true;
}

/* Nearby slots in an object's RELRO range, written through /proc/self/mem in one call: the call
 * costs more than all other work on a slot. The words in between are written back unchanged; in a
 * single-threaded process they cannot change meanwhile. */
enum { BATCH_SPAN = 4096, BATCH_MAX = 64 };
static struct {
    struct {
        void **slot;
        void *value;
    } writes[BATCH_MAX];
    size_t count;
    uintptr_t start, end;
} batch;

static void write_one(struct hf_writer *writer, void **slot, void *value)
{
    if (hf_write_open(writer, slot))
        __atomic_store_n(slot, value, __ATOMIC_RELEASE);
}

static void flush_batch(struct hf_writer *writer)
{
    static HF_APART void *words[BATCH_SPAN / sizeof(void *)]; /* the stack may be small */
    const size_t size = batch.end - batch.start;
    if (batch.count == 0)
        return;
    memcpy(words, (const void *)batch.start, size);
    for (size_t i = 0; i < batch.count; i++)
        words[((uintptr_t)batch.writes[i].slot - batch.start) / sizeof(void *)] =
            batch.writes[i].value;
    const bool written = pwrite(proc_mem, words, size, (off_t)batch.start) == (ssize_t)size;
    for (size_t i = 0; i < batch.count && !written; i++)
        write_one(writer, batch.writes[i].slot, batch.writes[i].value);
    batch.count = 0;
}

/* Adds a slot in a RELRO range to the batch, which is written without unprotecting the range. No
 * other thread can be inside the resolver, so such a slot needs no second check. */
static bool add_to_batch(struct hf_writer *writer, void **slot, void *value)
{
    const uintptr_t at = (uintptr_t)slot;
    if (proc_mem < 0 || !is_in_relro(writer, slot) || at % sizeof(void *) != 0)
        return false;
    uintptr_t start = batch.count == 0 || at < batch.start ? at : batch.start;
    uintptr_t end =
        batch.count == 0 || at + sizeof(void *) > batch.end ? at + sizeof(void *) : batch.end;
    if (batch.count == BATCH_MAX || end - start > BATCH_SPAN) {
        flush_batch(writer);
        start = at;
        end = at + sizeof(void *);
    }
    batch.start = start;
    batch.end = end;
    batch.writes[batch.count].slot = slot;
    batch.writes[batch.count++].value = value;
    return true;
}

bool hf_write_slot(struct hf_writer *writer, void **slot, void *value, void *expected)
{
    writer->lazy = false;
    if (add_to_batch(writer, slot, value))
        return true;
    if (!hf_write_open(writer, slot))
        return false;
    void *before = __atomic_exchange_n(slot, value, __ATOMIC_ACQ_REL);
    writer->lazy = before != expected && !is_in_relro(writer, slot);
    if (before != expected && unresolved_count < UNRESOLVED_MAX) {
        unresolved[unresolved_count].address = slot;
        unresolved[unresolved_count++].value = value;
    }
    return true;
}

void hf_write_fail(const struct hf_object *object, const char *part)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text,
                "fatal: cannot make the %s of %s read-only again after routing it (errno %d); set "
                "HOMEFREE_CONF=route:off to go without routing",
                part, hf_dynlink_name(object->map), errno);
    hf_fatal(&text);
}

void hf_write_close(struct hf_writer *writer)
{
    flush_batch(writer);
    if (!writer->opened)
        return;
    writer->opened = false;
    if (!protect(writer->object, PROT_READ))
        hf_write_fail(writer->object, "relocated data");
}
