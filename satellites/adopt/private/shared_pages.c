/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See shared_pages.h. Owns nothing.
 *
 * Only bytes decide: a page that anybody has changed, in the copy's file or in memory (relocations
 * of text, guards, breakpoints), differs and stays the copy's. The others hold the same bytes
 * before and after, and the kernel exchanges them in one step, so a thread that runs them notices
 * nothing. Pages that can be written are never touched.
 *
 * The new mapping is made elsewhere first, where the system may refuse it (a file system without
 * execution, a policy, a limit), and then moved.
 */
#include "satellites/adopt/private/shared_pages.h"

#include "alloc/base/dynlink.h"
#include "satellites/adopt/private/copy_bytes.h"

#include <dlfcn.h>
#include <homefree/alloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK      ((size_t)1 << 18) /* read at a time; a multiple of every page size */
#define LEAST_RUN  ((size_t)1 << 14) /* bytes: fewer are not worth a mapping */
#define BRANCHES   0xc0000000U       /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
#define PROPERTIES 5                 /* NT_GNU_PROPERTY_TYPE_0 */

struct share {
    int original;
    size_t page;
    char *bytes; /* CHUNK of the original's */
    uintptr_t at;
    off_t offset;
    size_t run; /* bytes before `at` that are the same in both */
    int protection;
};

static void end_run(struct share *share)
{
    const size_t size = share->run;
    const uintptr_t start = share->at - size;
    share->run = 0;
    if (size < LEAST_RUN)
        return;
    void *const made = mmap(NULL, size, share->protection, MAP_PRIVATE, share->original,
                            share->offset - (off_t)size);
    if (made != MAP_FAILED &&
        mremap(made, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == MAP_FAILED)
        munmap(made, size);
}

/* The part of a file that a page at its end lacks is zero in memory. */
static bool read_chunk(const struct share *share, size_t size)
{
    size_t done = 0;
    ssize_t now = 1;
    while (done < size && now > 0) {
        now = pread(share->original, share->bytes + done, size - done, share->offset + (off_t)done);
        done += now > 0 ? (size_t)now : 0;
    }
    memset(share->bytes + done, 0, size - done);
    return now >= 0 && done > 0;
}

static void share_segment(struct share *share, uintptr_t base, const ElfW(Phdr) *segment)
{
    const size_t before = segment->p_vaddr % share->page;
    if (segment->p_offset % share->page != before || segment->p_memsz != segment->p_filesz)
        return;
    size_t left = (before + segment->p_filesz + share->page - 1) & -share->page;
    share->at = base + segment->p_vaddr - before;
    share->offset = (off_t)(segment->p_offset - before);
    share->protection = ((segment->p_flags & PF_R) != 0 ? PROT_READ : 0) |
                        ((segment->p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    while (left > 0) {
        const size_t size = left < CHUNK ? left : CHUNK;
        if (!read_chunk(share, size))
            break;
        for (size_t done = 0; done < size; done += share->page) {
            const bool same =
                memcmp((const void *)share->at, share->bytes + done, share->page) == 0;
            if (!same)
                end_run(share);
            share->at += share->page;
            share->offset += (off_t)share->page;
            share->run += same ? share->page : 0;
        }
        left -= size;
    }
    end_run(share);
}

/* The dynamic linker protects such code with PROT_BTI, if the processor has it. */
static bool has_branch_targets(const struct hf_object *object)
{
    size_t size;
    const uint32_t *property = hf_object_note(object, "GNU", PROPERTIES, NULL, &size);
    return property != NULL && size >= sizeof *property && *property == BRANCHES;
}

static void share_object(struct share *share, const struct link_map *map)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return;
    hf_object_segments(&object);
    const bool code = !has_branch_targets(&object);
    for (size_t i = 0; i < object.headers_count; i++) {
        const ElfW(Phdr) *segment = &object.headers[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_R | PF_W)) == PF_R &&
            (code || (segment->p_flags & PF_X) == 0))
            share_segment(share, object.base, segment);
    }
}

void hf_copy_share(const char *copy, const char *original, const struct stat *status)
{
    struct link_map *map;
    struct stat now;
    void *const handle = dlopen(copy, RTLD_LAZY | RTLD_NOLOAD); /* keeps it loaded meanwhile */
    if (handle == NULL)
        return;
    struct share share = {.original = hf_copy_open_original(original),
                          .page = (size_t)sysconf(_SC_PAGESIZE),
                          .bytes = hf_malloc(CHUNK)};
    if (share.original >= 0 && share.bytes != NULL && fstat(share.original, &now) == 0 &&
        hf_copy_is_same(&now, status) && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        share_object(&share, map);
    if (share.original >= 0)
        close(share.original);
    hf_free(share.bytes);
    dlclose(handle);
}
