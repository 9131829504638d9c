/*
 * Call frame information that is damaged: whatever the tables of an object say, looking for a
 * caller ends, and reads nothing but readable memory. The tables are this program's own, copied
 * between pages that nobody can read.
 */
#include "alloc/base/call_frames.h"
#include "alloc/base/dynlink.h"
#include "death.h"
#include "random.h"
#include "suite.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GAP = 1 << 16 }; /* at least a page */

/* From the beginning of .eh_frame_hdr or .eh_frame, whichever comes first, to the other's end. */
static struct {
    const uint8_t *start;
    size_t size;
    size_t table; /* where .eh_frame_hdr begins in it */
} own;

/* A copy of it, or of a part. */
static struct {
    uint8_t *capacity; /* between two pages that cannot be read */
    size_t size;       /* of the room */
    uint8_t *start;
} copy;

const void *hf_dynlink_unwind_table(const void *address, struct hf_span *object)
{
    (void)address;
    /* With what cannot be read on either side. */
    *object = (struct hf_span){(uintptr_t)copy.capacity - GAP,
                               (uintptr_t)copy.capacity + copy.size + GAP};
    return copy.start + own.table;
}

struct header {
    uint8_t version, encodings[3];
    int32_t frames;
    uint32_t count;
    struct entry {
        int32_t function, description;
    } entries[];
};

/* The address, in what is not the copy's object, that stands for a function of the table. */
static uintptr_t code_of(size_t number)
{
    struct header header;
    struct entry entry;
    memcpy(&header, own.start + own.table, sizeof header);
    const uint8_t *at = own.start + own.table + sizeof header;
    memcpy(&entry, at + number % header.count * sizeof entry, sizeof entry);
    return (uintptr_t)copy.start + own.table + (uintptr_t)(intptr_t)entry.function + 1;
}

static int find_own(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_GNU_EH_FRAME)
            continue;
        const uint8_t *table = (const uint8_t *)info->dlpi_addr + part->p_vaddr;
        const struct header *header = (const void *)table;
        const uint8_t *frames = table + 4 + header->frames, *end = frames;
        uint32_t length;
        for (memcpy(&length, end, sizeof length); length != 0; memcpy(&length, end, sizeof length))
            end += sizeof length + length;
        end += sizeof length;
        if (end < table + part->p_memsz)
            end = table + part->p_memsz;
        own.start = table < frames ? table : frames;
        own.size = (size_t)(end - own.start);
        own.table = (size_t)(table - own.start);
    }
    return 1; /* the program is first */
}

static void make_capacity(void)
{
    (void)dl_iterate_phdr(find_own, NULL);
    must(own.size > 0);
    copy.size = (own.size + GAP) & -(size_t)GAP;
    uint8_t *all = mmap(NULL, copy.size + (size_t)2 * GAP, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(all != MAP_FAILED);
    copy.capacity = all + GAP;
    must(mprotect(copy.capacity, copy.size, PROT_READ | PROT_WRITE) == 0);
}

/* Copies the tables to the end of the room, but for their last bytes, or to its beginning. */
static void copy_tables(size_t cut, bool to_end)
{
    copy.start =
        to_end ? copy.capacity + copy.size - ((own.size - cut) & -(size_t)4) : copy.capacity;
    memcpy(copy.start, own.start, (own.size - cut) & -(size_t)4);
}

/* Follows a stack of which each word may be a return address into any function, or one elsewhere,
 * to which the frame pointer leads as well. */
static size_t follow(size_t number, uintptr_t stack)
{
    enum { WORDS = 512, FRAMES_MAX = 8 };
    static uintptr_t words[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        words[i] = code_of(number + i);
    struct hf_frame frame = {.code = code_of(number),
                             .stack = stack != 0 ? stack : (uintptr_t)words,
                             .pointer = stack != 0 ? stack : (uintptr_t)(words + WORDS / 2),
                             .called = true};
    size_t count = 0;
    while (count < FRAMES_MAX && frame.code != 0 && hf_frame_leave(&frame))
        count++;
    return count;
}

static void whole(void *unused)
{
    struct header header;
    size_t left = 0;
    (void)unused;
    make_capacity();
    memcpy(&header, own.start + own.table, sizeof header);
    for (size_t i = 0; i < header.count; i++) {
        copy_tables(0, false);
        const size_t frames = follow(i, 0);
        copy_tables(0, true);
        must(follow(i, 0) == frames);
        if (frames < 2) /* perhaps a thread's first function, whose stack says nothing */
            continue;
        left++;
        must(follow(i, (uintptr_t)copy.capacity - GAP) == 0); /* a stack that is not there */
        must(follow(i, GAP / 2) == 0);
        must(follow(i, UINTPTR_MAX - 7) == 0);
        must(follow(i, (uintptr_t)copy.capacity + 1) == 0);
    }
    must(left > 10);
}

CALL_TEST(whole_tables_are_followed_wherever_they_lie, whole, NULL)

static void truncated(void *unused)
{
    (void)unused;
    make_capacity();
    for (size_t cut = 0; cut + own.table < own.size; cut += 12) {
        copy_tables(cut, true);
        for (size_t i = 0; i < 2; i++)
            (void)follow(cut + i * 7, 0);
    }
}

CALL_TEST(tables_may_end_anywhere, truncated, NULL)

/* Where to damage: in the header, in the entry of a function or its common one, or anywhere. */
static size_t a_place(size_t number)
{
    struct header header;
    uint32_t distance;
    memcpy(&header, own.start + own.table, sizeof header);
    struct entry entry;
    memcpy(&entry, own.start + own.table + sizeof header + number % header.count * sizeof entry,
           sizeof entry);
    const size_t description = own.table + (size_t)(intptr_t)entry.description;
    memcpy(&distance, own.start + description + 4, sizeof distance);
    switch (random_below(8)) {
    case 0:
        return own.table + random_below(20);
    case 1:
        return own.table + sizeof header + number % header.count * sizeof entry + random_below(8);
    case 2:
        return random_below(own.size);
    case 3:
    case 4:
        return description + 4 - distance + random_below(28);
    default:
        return description + random_below(48);
    }
}

static void damaged(void *unused)
{
    enum { TRIES = 4000, EDITS_MAX = 6 };
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x0a, 0x0f, 0x10, 0x16, 0x50};
    (void)unused;
    make_capacity();
    copy_tables(0, true);
    for (size_t i = 0; i < TRIES; i++) {
        const size_t number = random_next();
        const size_t edits = 1 + random_below(EDITS_MAX);
        size_t places[EDITS_MAX];
        for (size_t j = 0; j < edits; j++) {
            const size_t first = a_place(number), length = 1 + random_below(8);
            places[j] = first;
            for (size_t at = first; at < first + length && at < own.size; at++)
                copy.start[at] = (random_next() & 1) != 0 ? telling[random_below(sizeof telling)]
                                                          : (uint8_t)random_next();
        }
        (void)follow(number, 0);
        for (size_t j = 0; j < edits; j++)
            for (size_t at = places[j]; at < places[j] + 8 && at < own.size; at++)
                copy.start[at] = own.start[at];
    }
    must(memcmp(copy.start, own.start, own.size & -(size_t)4) == 0);
}

CALL_TEST(tables_may_say_anything, damaged, NULL)

int main(void)
{
    return RUN_SUITE(whole_tables_are_followed_wherever_they_lie, tables_may_end_anywhere,
                     tables_may_say_anything);
}
