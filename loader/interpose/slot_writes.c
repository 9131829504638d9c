/*
 * Owns the session's state: no lock of our own guards it (slot_writes.h). While slots change,
 * nothing here calls a function that the change could reach, and nothing is allocated.
 *
 * Protection: a RELRO range becomes writable for the time that one object's slots are written, and
 * read-only again before the next object. While the process has one thread, /proc/self/mem is used
 * instead where there are many: it writes to read-only pages of ours in a fifth of the time and
 * opens nothing. With more threads it is not, because the kernel does not promise that a thread
 * never sees half a pointer. All calls are checked; an object that cannot be made writable is
 * refused, one that cannot be protected again ends the process.
 */
#include "loader/interpose/slot_writes.h"

#include "alloc/base/fatal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Slots that were not resolved yet when they were changed: a thread that was inside the resolver at
 * that moment may have overwritten the change. They are looked at once more at the session's end.
 */
#define UNRESOLVED_MAX 1024
static struct {
    void **address;
    void *value;
} unresolved[UNRESOLVED_MAX];
static size_t unresolved_count;

/* From glibc 2.32 on; weak, so that older ones load us. */
extern char hf_libc_single_threaded __asm__("__libc_single_threaded")
    __attribute__((weak, visibility("default")));

/* /proc/self/mem, open for the time of a session in a process of one thread; else -1. */
static int memory = -1;

bool hf_patch_is_alone(void)
{
    return &hf_libc_single_threaded != NULL && hf_libc_single_threaded;
}

void hf_patch_begin(bool many)
{
    unresolved_count = 0;
    if (many && hf_patch_is_alone())
        memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

void hf_patch_end(void)
{
    if (memory >= 0)
        close(memory);
    memory = -1;
    for (size_t i = 0; i < unresolved_count; i++)
        if (__atomic_load_n(unresolved[i].address, __ATOMIC_ACQUIRE) != unresolved[i].value)
            __atomic_store_n(unresolved[i].address, unresolved[i].value, __ATOMIC_RELEASE);
}

static bool protect(const struct hf_object *object, int protection)
{
    return mprotect((void *)object->relro_start, object->relro_size, protection) == 0;
}

bool hf_patch_is_writable(struct hf_patch *patch, void **slot)
{
    if (patch->object->writable_count == 0)
        hf_object_segments(patch->object);
    return hf_object_writable(patch->object, (uintptr_t)slot);
}

static bool is_in_relro(const struct hf_patch *patch, void **slot)
{
    return (uintptr_t)slot - patch->object->relro_start < patch->object->relro_size;
}

bool hf_patch_open(struct hf_patch *patch, void **slot)
{
    if (!is_in_relro(patch, slot) || patch->opened)
        return true;
    if (patch->error != 0)
        return false;
    if (!protect(patch->object, PROT_READ | PROT_WRITE)) {
        patch->error = -errno;
        return false;
    }
    patch->opened = true;
    return true;
}

/* Slots that lie near each other in one object's RELRO range, to be written through /proc/self/mem
 * by one call: it costs more than everything else that is done about a slot. What lies between them
 * is written as it is, and cannot change meanwhile in a process of one thread. */
enum { NEAR = 1024, NEAR_MAX = 64 };
static struct {
    struct {
        void **slot;
        void *value;
    } writes[NEAR_MAX];
    size_t count;
    uintptr_t start, end;
} near;

static void write_one(struct hf_patch *patch, void **slot, void *value)
{
    if (hf_patch_open(patch, slot))
        __atomic_store_n(slot, value, __ATOMIC_RELEASE);
}

static void write_near(struct hf_patch *patch)
{
    void *words[NEAR / sizeof(void *)];
    const size_t size = near.end - near.start;
    if (near.count == 0)
        return;
    memcpy(words, (const void *)near.start, size);
    for (size_t i = 0; i < near.count; i++)
        words[((uintptr_t)near.writes[i].slot - near.start) / sizeof(void *)] =
            near.writes[i].value;
    const bool written = pwrite(memory, words, size, (off_t)near.start) == (ssize_t)size;
    for (size_t i = 0; i < near.count && !written; i++)
        write_one(patch, near.writes[i].slot, near.writes[i].value);
    near.count = 0;
}

/* Takes a slot that lies in a RELRO range, to be written without making the range writable. No
 * other thread can be inside the resolver, so such a slot needs no second look. */
static bool write_protected(struct hf_patch *patch, void **slot, void *value)
{
    const uintptr_t at = (uintptr_t)slot;
    if (memory < 0 || !is_in_relro(patch, slot) || at % sizeof(void *) != 0)
        return false;
    uintptr_t start = near.count == 0 || at < near.start ? at : near.start;
    uintptr_t end =
        near.count == 0 || at + sizeof(void *) > near.end ? at + sizeof(void *) : near.end;
    if (near.count == NEAR_MAX || end - start > NEAR) {
        write_near(patch);
        start = at;
        end = at + sizeof(void *);
    }
    near.start = start;
    near.end = end;
    near.writes[near.count].slot = slot;
    near.writes[near.count++].value = value;
    return true;
}

bool hf_patch_write(struct hf_patch *patch, void **slot, void *value, void *expected)
{
    patch->lazy = false;
    if (write_protected(patch, slot, value))
        return true;
    if (!hf_patch_open(patch, slot))
        return false;
    void *before = __atomic_exchange_n(slot, value, __ATOMIC_ACQ_REL);
    patch->lazy = before != expected && !is_in_relro(patch, slot);
    if (before != expected && unresolved_count < UNRESOLVED_MAX) {
        unresolved[unresolved_count].address = slot;
        unresolved[unresolved_count++].value = value;
    }
    return true;
}

void hf_patch_close(struct hf_patch *patch)
{
    write_near(patch);
    if (!patch->opened)
        return;
    patch->opened = false;
    if (protect(patch->object, PROT_READ))
        return;
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: cannot make the relocated data of ");
    hf_text_add(&text, hf_dynlink_name(patch->object->map));
    hf_text_add(&text, " read-only again after routing it (errno ");
    hf_text_add_decimal(&text, errno);
    hf_text_add(&text, "); set HOMEFREE_CONF=route:off to go without routing");
    hf_fatal(&text);
}
