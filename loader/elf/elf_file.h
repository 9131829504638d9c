/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads ELF files (not named elf.h, which would hide the system's header): x86-64 and aarch64, 64
 * bits, little-endian; shared objects, programs and separate debug files.
 *
 * Constraint: every file is hostile. Each offset, count, index and size is checked against the file
 * before use, no loop runs longer than the file's contents warrant, and nothing recurses. A damaged
 * file gives an error, never a crash, and takes linear time at most.
 *
 * Constraint: this also runs inside libhomefree, while other allocators hold their locks. It
 * therefore allocates with mmap(2), reads with pread(2), and uses no malloc, stdio or locale. Files
 * are not mapped, because truncating one meanwhile would raise SIGBUS; except for large tables of a
 * file that the process runs code from (hf_elf_map_tables()).
 *
 * Owns: the descriptor and the buffers in a struct hf_elf, until hf_elf_close(). Opening reads the
 * header and the program headers; other parts are read when they are first needed.
 *
 * Threads: one thread at a time uses a struct hf_elf. No global state. Not for signal handlers: a
 * large table takes time.
 *
 * Results: 0 or a negative errno. After -ENOEXEC (not ELF, or damaged) and -ENOTSUP (another
 * machine, class or byte order), and after every other failure, elf->why says why in one line; it
 * is a static string.
 */
#ifndef HOMEFREE_LOADER_ELF_ELF_FILE_H
#define HOMEFREE_LOADER_ELF_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of a file that has been read; private to the reader. */
struct hf_elf_part {
    unsigned char *data; /* with at least one zero byte after `size` bytes */
    size_t size;
    void *pages; /* the memory that `data` lies in */
    size_t pages_size;
    bool tried;
    int result; /* the result of reading it */
};

enum hf_elf_part_name {
    HF_ELF_PART_SEGMENTS,
    HF_ELF_PART_SECTIONS,
    HF_ELF_PART_SECTION_NAMES,
    HF_ELF_PART_DYNAMIC,
    HF_ELF_PART_DYNSTR,
    HF_ELF_PART_FEW_STRINGS, /* those of DYNSTR that the dynamic section names */
    HF_ELF_PART_DYNSYM,
    HF_ELF_PART_VERSYM,
    HF_ELF_PART_VERNEED,
    HF_ELF_PART_VERDEF,
    HF_ELF_PART_VERSIONS,
    HF_ELF_PART_SYMTAB,
    HF_ELF_PART_STRTAB,
    HF_ELF_PART_COUNT
};

struct hf_elf {
    const char *why; /* NULL, or the reason of the last failure */
    int trouble;     /* the system's first error, negative: what was read may be incomplete; or 0 */
    Elf64_Ehdr header;
    uint64_t size; /* size of the file when it was opened */
    /* The rest is private. */
    int descriptor; /* -1 for a file in memory */
    bool maps_tables;
    uint64_t base; /* offset of the file in the descriptor's; not 0 inside an archive */
    const unsigned char *memory;
    struct hf_elf_part parts[HF_ELF_PART_COUNT];
};

/* Opens a path, with flags of open(2), in the file system below a directory, in which links stay.
 * Returns a descriptor, or a negative errno: -ENOSYS from Linux before 5.6. */
int hf_open_in_root(int root, const char *path, int flags);

/*
 * Opens a file. Refuses a FIFO or device without waiting for it. hf_elf_close() is required after
 * success and harmless after failure.
 */
int hf_elf_open(struct hf_elf *elf, const char *path);

/* The same for a path of the file system below a directory, in which links stay. */
int hf_elf_open_in_root(struct hf_elf *elf, int root, const char *path);

/* The same for a descriptor, which is duplicated; its file position is neither used nor moved. */
int hf_elf_open_descriptor(struct hf_elf *elf, int descriptor);

/* The same for `size` bytes at `offset` of an open regular file, which are a file of their own
 * there. The descriptor is duplicated. */
int hf_elf_open_range(struct hf_elf *elf, int descriptor, uint64_t offset, uint64_t size);

/* The same for memory, which must not change before hf_elf_close(). */
int hf_elf_open_memory(struct hf_elf *elf, const void *data, size_t size);

/*
 * Opens the separate debug file of an opened file, by its build id, below `directory`; NULL:
 * /usr/lib/debug. Addresses in it are those of the original. -ENOENT where there is none.
 */
int hf_elf_open_debug(struct hf_elf *debug, struct hf_elf *elf, const char *directory);

/*
 * The same, and if there is none, for one beside the file at `path`, where debuggers find it too:
 * NAME.debug or .debug/NAME.debug. `buffer`, of `size` bytes, is for its path.
 */
int hf_elf_find_debug(struct hf_elf *debug, struct hf_elf *elf, const char *path, char *buffer,
                      size_t size);

/*
 * From now on, large tables of the file are mapped instead of read, which takes a tenth of the
 * time. Only for a file that is loaded into this process: one that is truncated ends it anyway.
 */
void hf_elf_map_tables(struct hf_elf *elf);

/* Closes the file. Strings from `elf` become invalid. */
void hf_elf_close(struct hf_elf *elf);

/* ---- segments, sections, bytes -------------------------------------------------------------- */

/* The next program header; `cursor` starts at 0. False after the last. */
bool hf_elf_segment(const struct hf_elf *elf, size_t *cursor, Elf64_Phdr *out);

/*
 * The next section header and its name ("" if that is damaged). False after the last, and for a
 * file without readable section headers.
 */
bool hf_elf_section(struct hf_elf *elf, size_t *cursor, Elf64_Shdr *out, const char **name);

/* Translates an address in a PT_LOAD segment to an offset in the file, and counts the bytes that
 * follow it in the file and the segment: 0 or -ENOENT. */
int hf_elf_locate(const struct hf_elf *elf, uint64_t address, uint64_t *offset,
                  uint64_t *available);

/* Whether the file has no table of all symbols (HF_ELF_SYMTAB), which is not read for that. */
bool hf_elf_is_stripped(struct hf_elf *elf);

/* Reads exactly `size` bytes at `offset`. Fails with -ENOEXEC (the file is too short) or the error
 * of pread(2). */
int hf_elf_read(struct hf_elf *elf, uint64_t offset, void *buffer, size_t size);

/* A note in the segments of notes: where its contents lie, in the file and in memory. */
struct hf_elf_note {
    uint64_t offset, address, size;
};
/* The next note of an owner (at most 31 bytes) with a type; `cursor` starts at 0. False after the
 * last. */
bool hf_elf_note(struct hf_elf *elf, const char *owner, uint32_t type, size_t *cursor,
                 struct hf_elf_note *out);

/* Copies the GNU build id to `out`. Result: its bytes, at most `capacity`; 0 if there is none. */
size_t hf_elf_build_id(struct hf_elf *elf, unsigned char *out, size_t capacity);

/* ---- the dynamic section -------------------------------------------------------------------- */

/* Whether there is a readable dynamic section: 0, -ENOENT, -ENOEXEC. */
int hf_elf_dynamic(struct hf_elf *elf);

/* The entry at `index`; false at the end. */
bool hf_elf_dynamic_entry(struct hf_elf *elf, size_t index, Elf64_Dyn *out);

/* The value of a tag, the last one if there are several; false if there is none. */
bool hf_elf_tag(struct hf_elf *elf, int64_t tag, uint64_t *value);

/* The string at which a tag points (DT_SONAME, DT_RUNPATH, DT_RPATH), or NULL. */
const char *hf_elf_tag_string(struct hf_elf *elf, int64_t tag);

/* The next DT_NEEDED; `cursor` starts at 0. NULL after the last. */
const char *hf_elf_needed(struct hf_elf *elf, size_t *cursor);

/* Whether the dynamic linker has a relocation of that type to process. Needs hf_elf_dynamic(). */
bool hf_elf_has_relocation(struct hf_elf *elf, uint32_t type);

struct hf_elf_tls {
    uint64_t size, alignment;
    bool initial_exec; /* the block must come from glibc's static reserve: by DF_STATIC_TLS, or by
                          what relocations ask for */
};
/* The object's own thread-local storage. Returns false if it has none and needs none. An object may
 * need static TLS without having any, if it refers to that of another object. */
bool hf_elf_tls(struct hf_elf *elf, struct hf_elf_tls *out);

/* ---- symbols -------------------------------------------------------------------------------- */

enum hf_elf_table {
    HF_ELF_DYNSYM, /* the dynamic linker's table; needs no section headers */
    HF_ELF_SYMTAB, /* all symbols, in files that are not stripped */
};

struct hf_elf_symbol {
    const char *name;    /* never NULL. May be as long as the file: compare it, do not measure it */
    const char *version; /* "GLIBC_2.34", or NULL. DYNSYM only */
    const char *library; /* undefined: the soname of the library that has the version, or NULL */
    uint64_t value, size;
    uint32_t index;
    uint16_t section;   /* SHN_… */
    uint8_t type;       /* STT_… */
    uint8_t binding;    /* STB_… */
    uint8_t visibility; /* STV_… */
    bool defined;
};

/* False ends the visit. The symbol is valid during the call, its strings until hf_elf_close(). */
typedef bool hf_elf_symbol_visitor(const struct hf_elf_symbol *symbol, void *context);

/* Visits every symbol but the first, which is a placeholder: 0, -ENOENT if there is no such table,
 * or another negative errno. */
int hf_elf_symbols(struct hf_elf *elf, enum hf_elf_table table, hf_elf_symbol_visitor *visit,
                   void *context);

/* The number of symbols in the table, including the first; 0 if there is no table. */
size_t hf_elf_symbol_count(struct hf_elf *elf, enum hf_elf_table table);

/* False ends the visit. `needed`: required from `library`; otherwise the object defines it. */
typedef bool hf_elf_version_visitor(const char *library, const char *version, bool needed,
                                    void *context);
/* Visits the versions that the object needs and defines: 0 (also if it has none), or a negative
 * errno. */
int hf_elf_versions(struct hf_elf *elf, hf_elf_version_visitor *visit, void *context);

/* ---- for the reader's own files ------------------------------------------------------------- */

/* Stores `why`, and returns `error`. */
int hf_elf_fail(struct hf_elf *elf, int error, const char *why);

/* Reads a stretch of the file into a part. The part must not have been tried before. */
int hf_elf_load(struct hf_elf *elf, enum hf_elf_part_name name, uint64_t offset, uint64_t size);

/* Makes a zeroed part of that size. */
int hf_elf_reserve(struct hf_elf *elf, enum hf_elf_part_name name, uint64_t size);

/* A symbol table in memory, with its names, until hf_elf_close(). */
struct hf_elf_symbol_view {
    const Elf64_Sym *symbols;
    size_t count;
    const char *strings; /* a zero byte follows */
    size_t strings_size;
};
/* Results as those of hf_elf_symbols(). */
int hf_elf_symbol_view(struct hf_elf *elf, enum hf_elf_table table, struct hf_elf_symbol_view *out);

/* Returns the name that the table gives a symbol; "" if it lies outside the strings. */
static inline const char *hf_elf_symbol_name(const struct hf_elf_symbol_view *view, size_t index)
{
    const uint32_t name = view->symbols[index].st_name;
    return name < view->strings_size ? view->strings + name : "";
}

/* Describes one symbol of the table, without its version. */
struct hf_elf_symbol hf_elf_symbol_at(const struct hf_elf_symbol_view *view, size_t index);

/* The dynamic string table; NULL if there is none. */
const struct hf_elf_part *hf_elf_strings(struct hf_elf *elf);

#endif
