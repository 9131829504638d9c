/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the file, its segments, its sections and its dynamic section; elf_symbols.c reads symbols.
 * See elf_file.h for ownership and permitted callers.
 */
#include "loader/elf/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Limits above what any linker produces; larger tables would only cost time. The kernel accepts no
 * more program headers either (fs/binfmt_elf.c, load_elf_phdrs). */
#define SEGMENTS_MAX   65536
#define DYNAMIC_MAX    (UINT64_C(1) << 20)
#define NOTES_MAX      256
#define NOTE_OWNER_MAX 32
#define PART_MAX       (UINT64_C(1) << 30)

int hf_elf_fail(struct hf_elf *elf, int error, const char *why)
{
    elf->why = why;
    return error;
}

/* The same for what is not the file's fault. */
static int had_trouble(struct hf_elf *elf, int error, const char *why)
{
    if (elf->trouble == 0)
        elf->trouble = error;
    return hf_elf_fail(elf, error, why);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool in_file(const struct hf_elf *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->size && size <= elf->size - offset;
}

int hf_elf_read(struct hf_elf *elf, uint64_t offset, void *buffer, size_t size)
{
    if (!in_file(elf, offset, size))
        return hf_elf_fail(elf, -ENOEXEC, "the file ends too early");
    if (elf->descriptor < 0) {
        if (size != 0)
            memcpy(buffer, elf->memory + offset, size);
        return 0;
    }
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(elf->descriptor, (char *)buffer + done, size - done,
                            (off_t)(elf->base + offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return had_trouble(elf, -errno, "the file cannot be read");
        if (got == 0)
            return hf_elf_fail(elf, -ENOEXEC, "the file was cut short while it was read");
        done += (size_t)got;
    }
    return 0;
}

/* Result: NULL if there is no memory. */
static void *take_pages(struct hf_elf_part *part, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    part->pages_size = (size / page + 1) * page; /* leaves room for a zero byte */
    part->pages = mmap(NULL, part->pages_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (part->pages == MAP_FAILED)
        part->pages = NULL;
    return part->pages;
}

int hf_elf_reserve(struct hf_elf *elf, enum hf_elf_part_name name, uint64_t size)
{
    struct hf_elf_part *part = &elf->parts[name];
    part->tried = true;
    if (size > PART_MAX)
        return part->result = hf_elf_fail(elf, -EFBIG, "a table is larger than 1 GiB");
    part->data = take_pages(part, size);
    if (part->data == NULL)
        return part->result = had_trouble(elf, -ENOMEM, "there is no memory for a table");
    part->size = size;
    return part->result = 0;
}

static void drop(struct hf_elf_part *part)
{
    if (part->pages != NULL)
        munmap(part->pages, part->pages_size);
    part->pages = NULL;
    part->data = NULL;
    part->size = 0;
}

/* Smaller tables are as fast to read. */
enum { MAPPED_MIN = 1 << 16 };

void hf_elf_map_tables(struct hf_elf *elf)
{
    elf->maps_tables = true;
}

static bool is_cut_short(const struct hf_elf *elf)
{
    struct stat status;
    return fstat(elf->descriptor, &status) != 0 || (uint64_t)status.st_size < elf->base + elf->size;
}

/*
 * Maps a stretch of the file into a part. The page behind it is zero and stays so, which ends the
 * last string whatever becomes of the file. Result: false if it has to be read; so does a table of
 * strings whose last one does not end in it.
 */
static bool map_table(struct hf_elf *elf, struct hf_elf_part *part, uint64_t offset, uint64_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (elf->base + offset) % page;
    const bool are_symbols =
        part == &elf->parts[HF_ELF_PART_DYNSYM] || part == &elf->parts[HF_ELF_PART_SYMTAB];
    if (!elf->maps_tables || elf->descriptor < 0 || size < MAPPED_MIN || size > PART_MAX ||
        (are_symbols && before % _Alignof(Elf64_Sym) != 0) ||
        take_pages(part, before + size + page - 1) == NULL)
        return false;
    part->data = (unsigned char *)part->pages + before;
    if (mmap(part->pages, before + size, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE,
             elf->descriptor, (off_t)(elf->base + offset - before)) != MAP_FAILED &&
        !is_cut_short(elf) && (are_symbols || part->data[size - 1] == '\0')) {
        part->size = size;
        return true;
    }
    drop(part);
    return false;
}

int hf_elf_load(struct hf_elf *elf, enum hf_elf_part_name name, uint64_t offset, uint64_t size)
{
    struct hf_elf_part *part = &elf->parts[name];
    part->tried = true;
    if (!in_file(elf, offset, size))
        return part->result = hf_elf_fail(elf, -ENOEXEC, "a table lies outside the file");
    if (map_table(elf, part, offset, size))
        return part->result = 0;
    int result = hf_elf_reserve(elf, name, size);
    if (result == 0)
        result = hf_elf_read(elf, offset, part->data, size);
    if (result != 0)
        drop(part);
    return part->result = result;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int read_header(struct hf_elf *elf)
{
    Elf64_Ehdr *header = &elf->header;
    if (elf->size == 0)
        return hf_elf_fail(elf, -ENOEXEC, "the file is empty");
    if (elf->size < SELFMAG)
        return hf_elf_fail(elf, -ENOEXEC, "not an ELF file");
    int result = hf_elf_read(elf, 0, header, SELFMAG);
    if (result != 0)
        return result;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return hf_elf_fail(elf, -ENOEXEC, "not an ELF file");
    if (elf->size < EI_NIDENT)
        return hf_elf_fail(elf, -ENOEXEC, "the file ends within the ELF header");
    result = hf_elf_read(elf, 0, header, EI_NIDENT);
    if (result != 0)
        return result;
    if (header->e_ident[EI_CLASS] == ELFCLASS32)
        return hf_elf_fail(elf, -ENOTSUP, "a 32-bit ELF file");
    if (header->e_ident[EI_DATA] == ELFDATA2MSB)
        return hf_elf_fail(elf, -ENOTSUP, "a big-endian ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_ident[EI_VERSION] != EV_CURRENT)
        return hf_elf_fail(elf, -ENOEXEC, "the ELF header is damaged");
    if (elf->size < sizeof *header)
        return hf_elf_fail(elf, -ENOEXEC, "the file ends within the ELF header");
    result = hf_elf_read(elf, 0, header, sizeof *header);
    if (result != 0)
        return result;
    if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64)
        return hf_elf_fail(elf, -ENOTSUP, "an ELF file for another machine");
    if (header->e_version != EV_CURRENT || header->e_ehsize != sizeof *header)
        return hf_elf_fail(elf, -ENOEXEC, "the ELF header is damaged");
    return 0;
}

static int read_segments(struct hf_elf *elf)
{
    const Elf64_Ehdr *header = &elf->header;
    if (header->e_phnum == 0)
        return hf_elf_reserve(elf, HF_ELF_PART_SEGMENTS, 0);
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return hf_elf_fail(elf, -ENOEXEC, "the program headers have a wrong size");
    const uint64_t size = header->e_phnum * sizeof(Elf64_Phdr);
    if (size > SEGMENTS_MAX)
        return hf_elf_fail(elf, -ENOEXEC, "there are too many program headers");
    int result = hf_elf_load(elf, HF_ELF_PART_SEGMENTS, header->e_phoff, size);
    if (result == -ENOEXEC)
        elf->why = "the program headers lie outside the file";
    return result;
}

static void begin(struct hf_elf *elf)
{
    memset(elf, 0, sizeof *elf);
    elf->descriptor = -1;
}

static int begin_reading(struct hf_elf *elf)
{
    int result = read_header(elf);
    if (result == 0)
        result = read_segments(elf);
    if (result != 0)
        hf_elf_close(elf);
    return result;
}

/* Takes over the descriptor. */
static int open_owned(struct hf_elf *elf, int descriptor)
{
    elf->descriptor = descriptor;
    struct stat status;
    int result = 0;
    if (fstat(descriptor, &status) != 0)
        result = hf_elf_fail(elf, -errno, "the file cannot be examined");
    else if (S_ISDIR(status.st_mode))
        result = hf_elf_fail(elf, -EISDIR, "a directory");
    else if (!S_ISREG(status.st_mode))
        result = hf_elf_fail(elf, -ENOEXEC, "not a regular file");
    if (result != 0) {
        hf_elf_close(elf);
        return result;
    }
    elf->size = (uint64_t)status.st_size;
    return begin_reading(elf);
}

int hf_elf_open(struct hf_elf *elf, const char *path)
{
    begin(elf);
    /* Without O_NONBLOCK, open() would wait for ever for a writer of a FIFO. */
    int descriptor;
    do
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return hf_elf_fail(elf, -errno, "the file cannot be opened");
    return open_owned(elf, descriptor);
}

/* <linux/openat2.h>, which is newer than some systems that this is built on. */
#ifndef SYS_openat2
#    define SYS_openat2 437
#endif
struct how {
    uint64_t flags, mode, resolve;
};
enum { IN_ROOT = 0x10 }; /* RESOLVE_IN_ROOT */

int hf_open_in_root(int root, const char *path, int flags)
{
    const struct how how = {.flags = (unsigned)flags, .resolve = IN_ROOT};
    const long file = syscall(SYS_openat2, root, path, &how, sizeof how);
    return file >= 0 ? (int)file : -errno;
}

int hf_elf_open_in_root(struct hf_elf *elf, int root, const char *path)
{
    begin(elf);
    const int descriptor =
        hf_open_in_root(root, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return hf_elf_fail(elf, descriptor, "the file cannot be opened");
    return open_owned(elf, descriptor);
}

int hf_elf_open_descriptor(struct hf_elf *elf, int descriptor)
{
    begin(elf);
    const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return hf_elf_fail(elf, -errno, "the descriptor cannot be used");
    return open_owned(elf, own);
}

int hf_elf_open_range(struct hf_elf *elf, int descriptor, uint64_t offset, uint64_t size)
{
    begin(elf);
    elf->descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (elf->descriptor < 0)
        return hf_elf_fail(elf, -errno, "the descriptor cannot be used");
    elf->base = offset;
    elf->size = size;
    return begin_reading(elf);
}

int hf_elf_open_memory(struct hf_elf *elf, const void *data, size_t size)
{
    begin(elf);
    elf->memory = data;
    elf->size = size;
    return begin_reading(elf);
}

/* Keeps `why` for the message. */
void hf_elf_close(struct hf_elf *elf)
{
    for (size_t i = 0; i < HF_ELF_PART_COUNT; i++) {
        drop(&elf->parts[i]);
        elf->parts[i].tried = false;
    }
    if (elf->descriptor >= 0)
        close(elf->descriptor);
    elf->descriptor = -1;
    elf->size = 0;
}

int hf_elf_open_debug(struct hf_elf *debug, struct hf_elf *elf, const char *directory)
{
    static const char digits[] = "0123456789abcdef", middle[] = "/.build-id/", end[] = ".debug";
    enum { ID_MAX = 64 };
    unsigned char id[ID_MAX];
    char path[512];

    begin(debug);
    if (directory == NULL)
        directory = "/usr/lib/debug";
    const size_t length = hf_elf_build_id(elf, id, sizeof id);
    if (length < 2)
        return hf_elf_fail(debug, -ENOENT, "the file has no build id");
    size_t at = strlen(directory);
    if (at + sizeof middle + sizeof end + 2 * length + 2 > sizeof path)
        return hf_elf_fail(debug, -ENAMETOOLONG, "the directory's name is too long");
    memccpy(path, directory, '\0', sizeof path);
    memcpy(path + at, middle, sizeof middle - 1);
    at += sizeof middle - 1;
    for (size_t i = 0; i < length; i++) {
        path[at++] = digits[id[i] >> 4];
        path[at++] = digits[id[i] & 15];
        if (i == 0)
            path[at++] = '/';
    }
    memcpy(path + at, end, sizeof end);
    return hf_elf_open(debug, path);
}

int hf_elf_find_debug(struct hf_elf *debug, struct hf_elf *elf, const char *path, char *buffer,
                      size_t size)
{
    if (hf_elf_open_debug(debug, elf, NULL) == 0)
        return 0;
    unsigned char wanted[64], has[64];
    const size_t length = hf_elf_build_id(elf, wanted, sizeof wanted);
    const char *slash = strrchr(path, '/');
    const size_t directory = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    begin(debug);
    for (int i = 0; i < 2 && length != 0; i++) {
        static const char hidden[] = ".debug/", end[] = ".debug";
        const size_t name = strlen(path) - directory, middle = i == 0 ? 0 : sizeof hidden - 1;
        if (directory + middle + name + sizeof end > size)
            continue;
        memcpy(buffer, path, directory);
        memcpy(buffer + directory, hidden, middle);
        memcpy(buffer + directory + middle, path + directory, name);
        memcpy(buffer + directory + middle + name, end, sizeof end);
        if (hf_elf_open(debug, buffer) != 0)
            continue;
        if (hf_elf_build_id(debug, has, sizeof has) == length && memcmp(wanted, has, length) == 0)
            return 0;
        hf_elf_close(debug);
    }
    return hf_elf_fail(debug, -ENOENT, "there is no debug file beside it");
}

/* ---- segments ------------------------------------------------------------------------------- */

bool hf_elf_segment(const struct hf_elf *elf, size_t *cursor, Elf64_Phdr *out)
{
    const struct hf_elf_part *part = &elf->parts[HF_ELF_PART_SEGMENTS];
    if (*cursor >= part->size / sizeof *out)
        return false;
    memcpy(out, part->data + *cursor * sizeof *out, sizeof *out);
    ++*cursor;
    return true;
}

int hf_elf_locate(const struct hf_elf *elf, uint64_t address, uint64_t *offset, uint64_t *available)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);) {
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
            address - segment.p_vaddr >= segment.p_filesz)
            continue;
        const uint64_t inside = address - segment.p_vaddr;
        if (segment.p_offset > elf->size || inside > elf->size - segment.p_offset)
            return -ENOENT;
        const uint64_t left = elf->size - segment.p_offset - inside;
        *offset = segment.p_offset + inside;
        *available = segment.p_filesz - inside < left ? segment.p_filesz - inside : left;
        return 0;
    }
    return -ENOENT;
}

/* ---- sections ------------------------------------------------------------------------------- */

static int read_sections(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_SECTIONS];
    const Elf64_Ehdr *header = &elf->header;
    if (part->tried)
        return part->result;
    part->tried = true;
    if (header->e_shoff == 0)
        return part->result = -ENOENT;
    if (header->e_shentsize != sizeof(Elf64_Shdr))
        return part->result = hf_elf_fail(elf, -ENOEXEC, "the section headers have a wrong size");
    /* The first section header has the counts that do not fit into the ELF header. */
    Elf64_Shdr first;
    part->result = hf_elf_read(elf, header->e_shoff, &first, sizeof first);
    if (part->result != 0)
        return part->result;
    const uint64_t count = header->e_shnum != 0 ? header->e_shnum : first.sh_size;
    const uint64_t names = header->e_shstrndx != SHN_XINDEX ? header->e_shstrndx : first.sh_link;
    if (count > elf->size / sizeof(Elf64_Shdr))
        return part->result =
                   hf_elf_fail(elf, -ENOEXEC, "the section headers lie outside the file");
    int result =
        hf_elf_load(elf, HF_ELF_PART_SECTIONS, header->e_shoff, count * sizeof(Elf64_Shdr));
    if (result != 0)
        return result;
    if (names == SHN_UNDEF || names >= count)
        return 0;
    Elf64_Shdr strings;
    memcpy(&strings, part->data + names * sizeof strings, sizeof strings);
    /* Sections are useful without names, too. */
    if (strings.sh_type == SHT_STRTAB)
        hf_elf_load(elf, HF_ELF_PART_SECTION_NAMES, strings.sh_offset, strings.sh_size);
    return 0;
}

bool hf_elf_section(struct hf_elf *elf, size_t *cursor, Elf64_Shdr *out, const char **name)
{
    const struct hf_elf_part *part = &elf->parts[HF_ELF_PART_SECTIONS],
                             *names = &elf->parts[HF_ELF_PART_SECTION_NAMES];
    if (read_sections(elf) != 0 || *cursor >= part->size / sizeof *out)
        return false;
    memcpy(out, part->data + *cursor * sizeof *out, sizeof *out);
    ++*cursor;
    if (name != NULL)
        *name = out->sh_name < names->size ? (const char *)names->data + out->sh_name : "";
    return true;
}

bool hf_elf_is_stripped(struct hf_elf *elf)
{
    Elf64_Shdr section;
    for (size_t cursor = 0; hf_elf_section(elf, &cursor, &section, NULL);)
        if (section.sh_type == SHT_SYMTAB)
            return false;
    return true;
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* Searches one segment of notes. `left` is the number of notes that may still be read, `skipped`
 * that of those that fit and are not wanted. */
static bool find_note(struct hf_elf *elf, const Elf64_Phdr *segment, const char *owner,
                      uint32_t type, size_t *left, size_t *skipped, struct hf_elf_note *out)
{
    const uint64_t size = segment->p_filesz;
    const uint64_t alignment = segment->p_align == 8 ? 8 : 4;
    const size_t length = strlen(owner) + 1;
    uint64_t next;
    for (uint64_t at = 0;
         size >= sizeof(Elf64_Nhdr) && at <= size - sizeof(Elf64_Nhdr) && *left > 0; at = next) {
        Elf64_Nhdr note;
        char name[NOTE_OWNER_MAX];
        --*left;
        if (segment->p_offset > UINT64_MAX - at)
            return false;
        const uint64_t offset = segment->p_offset + at;
        if (hf_elf_read(elf, offset, &note, sizeof note) != 0)
            return false;
        const uint64_t contents =
            (sizeof note + note.n_namesz + alignment - 1) / alignment * alignment;
        next = at + contents + (note.n_descsz + alignment - 1) / alignment * alignment;
        if (note.n_type != type || note.n_namesz != length ||
            hf_elf_read(elf, offset + sizeof note, name, length) != 0 ||
            memcmp(name, owner, length) != 0)
            continue;
        if (*skipped > 0) {
            --*skipped;
            continue;
        }
        *out = (struct hf_elf_note){.offset = offset + contents,
                                    .address = segment->p_vaddr + at + contents,
                                    .size = note.n_descsz};
        return true;
    }
    return false;
}

bool hf_elf_note(struct hf_elf *elf, const char *owner, uint32_t type, size_t *cursor,
                 struct hf_elf_note *out)
{
    Elf64_Phdr segment;
    size_t left = NOTES_MAX, skipped = *cursor;
    if (strlen(owner) >= NOTE_OWNER_MAX)
        return false;
    for (size_t i = 0; hf_elf_segment(elf, &i, &segment);)
        if (segment.p_type == PT_NOTE &&
            find_note(elf, &segment, owner, type, &left, &skipped, out)) {
            ++*cursor;
            return true;
        }
    return false;
}

size_t hf_elf_build_id(struct hf_elf *elf, unsigned char *out, size_t capacity)
{
    struct hf_elf_note note;
    size_t cursor = 0;
    if (!hf_elf_note(elf, ELF_NOTE_GNU, NT_GNU_BUILD_ID, &cursor, &note))
        return 0;
    const size_t length = note.size < capacity ? note.size : capacity;
    return hf_elf_read(elf, note.offset, out, length) == 0 ? length : 0;
}

/* ---- the dynamic section -------------------------------------------------------------------- */

int hf_elf_dynamic(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_DYNAMIC];
    if (part->tried)
        return part->result;
    part->tried = true;
    part->result = -ENOENT;
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);) {
        if (segment.p_type != PT_DYNAMIC)
            continue;
        uint64_t offset, available;
        /* Locate the contents by address, as the dynamic linker does. A debug file has the header
         * without the contents. */
        if (segment.p_filesz == 0 ||
            hf_elf_locate(elf, segment.p_vaddr, &offset, &available) != 0 ||
            segment.p_filesz > available)
            return part->result =
                       hf_elf_fail(elf, -ENOEXEC, "the dynamic section lies outside the file");
        if (segment.p_filesz > DYNAMIC_MAX)
            return part->result = hf_elf_fail(elf, -ENOEXEC, "the dynamic section is too large");
        return hf_elf_load(elf, HF_ELF_PART_DYNAMIC, offset, segment.p_filesz);
    }
    return part->result;
}

bool hf_elf_dynamic_entry(struct hf_elf *elf, size_t index, Elf64_Dyn *out)
{
    const struct hf_elf_part *part = &elf->parts[HF_ELF_PART_DYNAMIC];
    if (hf_elf_dynamic(elf) != 0 || index >= part->size / sizeof *out)
        return false;
    memcpy(out, part->data + index * sizeof *out, sizeof *out);
    return out->d_tag != DT_NULL;
}

bool hf_elf_tag(struct hf_elf *elf, int64_t tag, uint64_t *value)
{
    Elf64_Dyn entry;
    bool found = false;
    for (size_t i = 0; hf_elf_dynamic_entry(elf, i, &entry); i++)
        if (entry.d_tag == tag) {
            *value = entry.d_un.d_val;
            found = true;
        }
    return found;
}

/* Finds the dynamic string table in the file. */
static int locate_strings(struct hf_elf *elf, uint64_t *offset, uint64_t *size)
{
    uint64_t address, available;
    if (!hf_elf_tag(elf, DT_STRTAB, &address) || !hf_elf_tag(elf, DT_STRSZ, size))
        return -ENOENT;
    if (hf_elf_locate(elf, address, offset, &available) != 0 || *size > available)
        return hf_elf_fail(elf, -ENOEXEC, "the dynamic strings lie outside the file");
    return 0;
}

const struct hf_elf_part *hf_elf_strings(struct hf_elf *elf)
{
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_DYNSTR];
    uint64_t offset, size;
    if (!part->tried) {
        part->tried = true;
        part->result = locate_strings(elf, &offset, &size);
        if (part->result == 0)
            (void)hf_elf_load(elf, HF_ELF_PART_DYNSTR, offset, size);
    }
    return part->result == 0 ? part : NULL;
}

/* Reads one string of a table that is large because of its symbols. NULL if the whole table has to
 * be read, so that hostile names take linear time. */
static const char *read_string(struct hf_elf *elf, uint64_t index)
{
    enum { PIECE = 4096 };
    struct hf_elf_part *part = &elf->parts[HF_ELF_PART_FEW_STRINGS];
    uint64_t offset, size;
    if (elf->parts[HF_ELF_PART_DYNSTR].tried || locate_strings(elf, &offset, &size) != 0 ||
        size <= PIECE || index >= size)
        return NULL;
    if (!part->tried)
        (void)hf_elf_reserve(elf, HF_ELF_PART_FEW_STRINGS, size);
    const uint64_t length = size - index < PIECE ? size - index : PIECE;
    if (part->result != 0 || hf_elf_read(elf, offset + index, part->data + index, length) != 0 ||
        memchr(part->data + index, '\0', length) == NULL)
        return NULL;
    return (const char *)part->data + index;
}

static const char *dynamic_string(struct hf_elf *elf, uint64_t index)
{
    const char *string = read_string(elf, index);
    const struct hf_elf_part *strings = string == NULL ? hf_elf_strings(elf) : NULL;
    if (strings != NULL && index < strings->size)
        string = (const char *)strings->data + index;
    return string;
}

const char *hf_elf_tag_string(struct hf_elf *elf, int64_t tag)
{
    uint64_t value;
    return hf_elf_tag(elf, tag, &value) ? dynamic_string(elf, value) : NULL;
}

const char *hf_elf_needed(struct hf_elf *elf, size_t *cursor)
{
    Elf64_Dyn entry;
    while (hf_elf_dynamic_entry(elf, *cursor, &entry)) {
        ++*cursor;
        const char *name = entry.d_tag == DT_NEEDED ? dynamic_string(elf, entry.d_un.d_val) : NULL;
        if (name != NULL)
            return name;
    }
    return NULL;
}
