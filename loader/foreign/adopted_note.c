/*
 * See adopted_note.h.
 */
#include "loader/foreign/adopted_note.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const struct hf_adopted_note *hf_adopted_loaded(const struct link_map *map)
{
    struct hf_object object;
    size_t size;
    if (!hf_dynlink_open(map, &object))
        return NULL;
    const struct hf_adopted_note *note =
        hf_object_note(&object, HF_ADOPTED_OWNER, HF_ADOPTED_TYPE, &size);
    return size > sizeof *note ? note : NULL;
}

/* Makes the segment of slots read-only. Its bounds come from the note, so they are compared with
 * the object's segments. */
static bool protect(const struct link_map *map, const struct hf_adopted_note *note)
{
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return false;
    hf_object_segments(&object);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < object.writable_count; i++)
        if (object.writable[i].start == object.base + note->slots &&
            object.writable[i].size == note->size)
            return mprotect((void *)object.writable[i].start, (note->size + page - 1) & -page,
                            PROT_READ) == 0;
    return false;
}

static atomic_bool some_loaded;

bool hf_adopted_look(const struct link_map *map)
{
    const struct hf_adopted_note *note = hf_adopted_loaded(map);
    if (note == NULL)
        return false;
    atomic_store_explicit(&some_loaded, true, memory_order_release);
    return protect(map, note);
}

bool hf_adopted_some(void)
{
    return atomic_load_explicit(&some_loaded, memory_order_acquire);
}

bool hf_adopted_read(int descriptor, struct hf_adopted_note *out, size_t size)
{
    Elf64_Ehdr header;
    struct {
        Elf64_Nhdr header;
        char name[HF_ADOPTED_NAME_SIZE];
    } start;
    struct stat status;
    if (fstat(descriptor, &status) != 0 || size <= sizeof *out ||
        pread(descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return false;
    const off_t note = (off_t)(header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
    if (note < 0 || pread(descriptor, &start, sizeof start, note) != (ssize_t)sizeof start ||
        start.header.n_type != HF_ADOPTED_TYPE ||
        start.header.n_namesz != sizeof HF_ADOPTED_OWNER ||
        memcmp(start.name, HF_ADOPTED_OWNER, sizeof HF_ADOPTED_OWNER) != 0 ||
        start.header.n_descsz <= sizeof *out || start.header.n_descsz > size)
        return false;
    if (pread(descriptor, out, start.header.n_descsz, note + (off_t)sizeof start) !=
        (ssize_t)start.header.n_descsz)
        return false;
    ((char *)out)[start.header.n_descsz - 1] = '\0';
    return out->file_size == (uint64_t)status.st_size;
}
