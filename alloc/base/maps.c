/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses /proc/self/maps, which it opens for the duration of a call. See maps.h.
 */
#include "alloc/base/maps.h"

#include "alloc/base/uncancelled.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* The line being parsed: "start-end rwxp offset dev inode  name". */
struct line {
    struct hf_mapping mapping;
    unsigned field; /* the next character's field */
    size_t length;  /* of the current field, so far */
};

enum {
    FIELD_START,
    FIELD_END,
    FIELD_PERMISSIONS,
    FIELD_OFFSET,
    FIELD_DEVICE,
    FIELD_INODE,
    FIELD_NAME
};

static unsigned hex(char c)
{
    return c >= 'a' ? (unsigned)(c - 'a') + 10 : (unsigned)(c - '0');
}

static void add_permission(struct hf_mapping *mapping, size_t at, char c)
{
    if (at == 0)
        mapping->readable = c == 'r';
    else if (at == 1)
        mapping->writable = c == 'w';
    else if (at == 2)
        mapping->executable = c == 'x';
    else if (at == 3)
        mapping->shared = c == 's';
}

static void add(struct line *line, char c)
{
    struct hf_mapping *mapping = &line->mapping;
    bool ends = line->field == FIELD_START ? c == '-' : c == ' ' && line->field != FIELD_NAME;
    if (ends) {
        line->field++;
        line->length = 0;
        return;
    }
    switch (line->field) {
    case FIELD_START:
        mapping->start = mapping->start << 4 | hex(c);
        break;
    case FIELD_END:
        mapping->end = mapping->end << 4 | hex(c);
        break;
    case FIELD_PERMISSIONS:
        add_permission(mapping, line->length, c);
        break;
    case FIELD_INODE:
        mapping->inode = mapping->inode * 10 + (unsigned)(c - '0');
        break;
    case FIELD_NAME:
        if (c == ' ' && line->length == 0) /* padding */
            return;
        if (line->length < sizeof mapping->name - 1)
            mapping->name[line->length] = c;
        break;
    default:
        break;
    }
    line->length++;
}

int hf_maps_each(bool (*visit)(const struct hf_mapping *mapping, void *context), void *context)
{
    char buffer[2048];
    struct line line = {.field = FIELD_START};
    int saved_errno = errno, error = 0;
    bool more = true;
    int file = hf_open_uncancelled("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        error = errno;
        errno = saved_errno;
        return -error;
    }
    while (more) {
        ssize_t size = hf_read_uncancelled(file, buffer, sizeof buffer);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            error = errno;
        if (size <= 0)
            break;
        for (ssize_t i = 0; i < size && more; i++) {
            if (buffer[i] != '\n') {
                add(&line, buffer[i]);
                continue;
            }
            line.mapping.anonymous = line.mapping.inode == 0;
            more = visit(&line.mapping, context);
            memset(&line, 0, sizeof line);
        }
    }
    hf_close_uncancelled(file);
    errno = saved_errno;
    return -error;
}

struct search {
    uintptr_t address;
    struct hf_place *out;
};

/* False once no later mapping can matter. */
static bool take(const struct hf_mapping *mapping, void *context)
{
    const struct search *search = context;
    struct hf_place *out = search->out;
    if (search->address - mapping->start < mapping->end - mapping->start) {
        if (out->before.end != mapping->start)
            out->before.end = 0;
        out->at = *mapping;
        return true;
    }
    if (mapping->start > search->address) {
        if (out->at.end == mapping->start)
            out->after = *mapping;
        return false;
    }
    out->before = *mapping;
    return true;
}

int hf_maps_find(const void *address, struct hf_place *out)
{
    struct search search = {(uintptr_t)address, out};
    memset(out, 0, sizeof *out);
    int error = hf_maps_each(take, &search);
    return error != 0 ? error : out->at.end != 0;
}

/* For sandboxes in which a process may not call process_vm_readv(2), not even for itself. */
static __attribute__((noinline, cold)) bool read_file(const void *address, void *buffer,
                                                      size_t size)
{
    const int file = hf_open_uncancelled("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool done = hf_pread_uncancelled(file, buffer, size, (uintptr_t)address) == (ssize_t)size;
    hf_close_uncancelled(file);
    return done;
}

bool hf_maps_read(const void *address, void *buffer, size_t size)
{
    int saved_errno = errno;
    struct iovec to = {buffer, size}, from = {(void *)(uintptr_t)address, size};
    bool done = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size;
    if (!done && (errno == EPERM || errno == ENOSYS))
        done = read_file(address, buffer, size);
    errno = saved_errno;
    return done;
}

enum { PAGE_SHIFT = 12 }; /* or more */

static bool has_page(uintptr_t page)
{
    enum { PAGES = 256 };
    static uintptr_t seen[PAGES]; /* atomic: each a page's number + 1 */
    uint8_t byte;
    if (__atomic_load_n(&seen[page % PAGES], __ATOMIC_RELAXED) == page + 1)
        return true;
    if (!hf_maps_read((const void *)(page << PAGE_SHIFT), &byte, sizeof byte))
        return false;
    __atomic_store_n(&seen[page % PAGES], page + 1, __ATOMIC_RELAXED);
    return true;
}

bool hf_maps_has(const void *address, size_t size)
{
    uintptr_t page = (uintptr_t)address >> PAGE_SHIFT;
    const uintptr_t last = ((uintptr_t)address + size - 1) >> PAGE_SHIFT;
    while (page < last)
        if (!has_page(page++))
            return false;
    return page == last && has_page(page);
}

void hf_maps_copy(const void *address, void *buffer, size_t size)
{
    struct hf_place place;
    if (hf_maps_find(address, &place) <= 0)
        return;
    size_t capacity = place.at.end - (uintptr_t)address;
    if (!hf_maps_read(address, buffer, capacity < size ? capacity : size))
        memset(buffer, 0, size);
}
