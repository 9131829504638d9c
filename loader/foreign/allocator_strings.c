/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See allocator_strings.h. Owns a mapped buffer during a scan; holds no lock. elf_file.h says where
 * this may run.
 */
#include "loader/foreign/allocator_strings.h"

#include "loader/elf/byte_search.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 256 * 1024, LONGEST = 64 };

struct scan {
    struct hf_elf *elf;
    struct hf_search search; /* for all strings, by their numbers */
    const char **found;
    bool seen[HF_ALLOCATOR_COUNT]; /* found by this scan */
    unsigned char *buffer;         /* BLOCK + LONGEST */
    uint64_t left;                 /* bytes that may still be read */
};

static bool all_found(const struct scan *scan)
{
    for (size_t i = 0; i < hf_allocator_strings_count; i++)
        if (scan->found[hf_allocator_strings[i].allocator] == NULL)
            return false;
    return true;
}

/* The strings of the allocators that were not found. */
static uint32_t wanted(const struct scan *scan)
{
    uint32_t strings = 0;
    for (size_t i = 0; i < hf_allocator_strings_count; i++)
        if (scan->found[hf_allocator_strings[i].allocator] == NULL)
            strings |= UINT32_C(1) << i;
    return strings;
}

static int prepare(struct hf_search *search)
{
    const char *texts[HF_SEARCH_MAX];
    size_t lengths[HF_SEARCH_MAX];
    for (size_t i = 0; i < hf_allocator_strings_count && i < HF_SEARCH_MAX; i++) {
        texts[i] = hf_allocator_strings[i].text;
        lengths[i] = hf_allocator_strings[i].length;
    }
    return hf_search_prepare(search, texts, lengths, hf_allocator_strings_count);
}

static int scan_range(struct scan *scan, uint64_t offset, uint64_t size)
{
    if (offset > scan->elf->size)
        return 0;
    if (size > scan->elf->size - offset)
        size = scan->elf->size - offset;
    if (size > scan->left)
        size = scan->left;
    scan->left -= size;
    /* Keep the end of the previous block: a string may begin in it. */
    size_t kept = 0;
    while (size > 0 && !all_found(scan)) {
        const size_t part = size < BLOCK ? (size_t)size : BLOCK;
        const int result = hf_elf_read(scan->elf, offset, scan->buffer + kept, part);
        if (result != 0)
            return result;
        const size_t length = kept + part;
        const uint32_t found = hf_search_in(&scan->search, scan->buffer, length, wanted(scan));
        for (size_t i = 0; i < hf_allocator_strings_count; i++) {
            const struct hf_allocator_string *string = &hf_allocator_strings[i];
            if ((found >> i & 1) != 0 && scan->found[string->allocator] == NULL) {
                scan->found[string->allocator] = string->text;
                scan->seen[string->allocator] = true;
            }
        }
        kept = length < LONGEST ? length : LONGEST;
        memmove(scan->buffer, scan->buffer + length - kept, kept);
        offset += part;
        size -= part;
    }
    return 0;
}

/* Read-only sections in which compilers put no strings. */
static bool never_strings(const char *name)
{
    return strncmp(name, ".eh_frame", 9) == 0 || strncmp(name, ".gcc_except_table", 17) == 0;
}

/* `strings`: only the sections in which linkers put strings; otherwise the others. */
static int scan_sections(struct scan *scan, bool strings, bool *any)
{
    Elf64_Shdr section;
    const char *name;
    for (size_t cursor = 0; hf_elf_section(scan->elf, &cursor, &section, &name);) {
        if (section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_ALLOC) == 0 ||
            (section.sh_flags & (SHF_WRITE | SHF_EXECINSTR)) != 0)
            continue;
        *any = true;
        if (never_strings(name) || (strncmp(name, ".rodata", 7) == 0) != strings)
            continue;
        const int result = scan_range(scan, section.sh_offset, section.sh_size);
        if (result != 0)
            return result;
    }
    return 0;
}

/* For a file without sections: the read-only segments or, as older linkers lay files out, the code
 * segments. */
static int scan_segments(struct scan *scan, bool code)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(scan->elf, &cursor, &segment);) {
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0 ||
            ((segment.p_flags & PF_X) != 0) != code)
            continue;
        const int result = scan_range(scan, segment.p_offset, segment.p_filesz);
        if (result != 0)
            return result;
    }
    return 0;
}

int hf_elf_scan(struct hf_elf *elf, const char *found[HF_ALLOCATOR_COUNT], uint64_t limit)
{
    struct scan scan = {.elf = elf, .found = found, .left = limit};
    if (all_found(&scan))
        return 0;
    if (prepare(&scan.search) != 0)
        return hf_elf_fail(elf, -E2BIG, "there are too many strings to look for");
    void *buffer =
        mmap(NULL, BLOCK + LONGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return hf_elf_fail(elf, -ENOMEM, "out of memory");
    scan.buffer = buffer;
    bool any = false;
    int result = scan_sections(&scan, true, &any);
    if (result == 0)
        result = scan_sections(&scan, false, &any);
    if (result == 0 && !any) {
        result = scan_segments(&scan, false);
        if (result == 0)
            result = scan_segments(&scan, true);
    }
    munmap(buffer, BLOCK + LONGEST);
    const bool is_list = hf_allocator_strings_all(scan.seen);
    for (size_t i = 0; is_list && i < HF_ALLOCATOR_COUNT; i++)
        if (scan.seen[i])
            found[i] = NULL;
    return result;
}
