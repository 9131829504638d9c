/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See object_names.h.
 *
 * All state is in one struct reading on the stack. The readers of loader/elf/elf_object.h and
 * loader/elf/archive.h check every offset and count; this file checks the length of names and the
 * meaning of symbols. Files are read, never mapped, because a file that another process truncates
 * would otherwise end this process with SIGBUS.
 */
#include "loader/command/exports/object_names.h"

#include "loader/command/exports/version_script.h"
#include "loader/elf/archive.h"
#include "loader/elf/elf_object.h"
#include "loader/inspect/module_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer than the symbol of any module that a file system can hold (punycode.h). Without a limit,
 * many symbols that share one long name would take quadratic time. */
enum { LONGEST_SYMBOL = 2047 };

struct reading {
    int descriptor;
    hf_objects_found *found;
    void *argument;
    struct hf_objects_seen *seen;
    char *why;
    size_t why_size;
    int result; /* result of the callback that ended the visit */
};

__attribute__((format(printf, 3, 4))) static int fail(struct reading *reading, int result,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* clang-tidy 14 does not see that va_start() filled the list: NOLINTNEXTLINE(*-valist*) */
    vsnprintf(reading->why, reading->why_size, format, arguments);
    va_end(arguments);
    return result;
}

/* Reports the ELF reader's reason. */
static int unreadable(struct reading *reading, const struct hf_elf *elf, int result)
{
    return fail(reading, result,
                result == -ENOEXEC ? "is a damaged ELF file: %s" : "cannot be read: %s", elf->why);
}

/* ---- symbols -------------------------------------------------------------------------------- */

static bool is_function_for_others(const struct hf_elf_symbol *symbol)
{
    /* Assemblers set no type unless the source does. */
    return symbol->defined &&
           (symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC ||
            symbol->type == STT_NOTYPE) &&
           (symbol->binding == STB_GLOBAL || symbol->binding == STB_WEAK ||
            symbol->binding == STB_GNU_UNIQUE);
}

static int read_symbol(struct reading *reading, const struct hf_elf_symbol *symbol)
{
    const char *name = symbol->name;
    /* GCC defines this symbol in objects whose code is still to be compiled; their definitions are
     * in another section. */
    if (strcmp(name, "__gnu_lto_slim") == 0)
        return fail(reading, -ENOEXEC,
                    "holds only link-time-optimization code, not its symbols; compile it with "
                    "-ffat-lto-objects");
    if (hf_module_function_of(name, NULL) == HF_MODULE_FUNCTION_NONE ||
        !is_function_for_others(symbol))
        return 0;
    /* The name is written to a script for the linker, so only a valid symbol may pass. */
    if (strnlen(name, LONGEST_SYMBOL + 1) > LONGEST_SYMBOL || hf_exports_symbol_fault(name) != NULL)
        return fail(reading, -ENOEXEC,
                    "defines a function of a module whose name no version script can hold");

    if (symbol->visibility == STV_HIDDEN || symbol->visibility == STV_INTERNAL) {
        reading->seen->hidden++;
        return 0;
    }
    reading->seen->defined++;
    return reading->found(name, reading->argument);
}

static bool visit_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct reading *reading = context;
    reading->result = read_symbol(reading, symbol);
    return reading->result == 0;
}

/* ---- one ELF file or member ----------------------------------------------------------------- */

static int read_opened(struct reading *reading, struct hf_elf *elf)
{
    const uint16_t type = elf->header.e_type;
    if (type != ET_REL && type != ET_DYN)
        return fail(reading, -ENOEXEC, "is neither an object file nor a shared object");
    reading->seen->objects++;
    reading->result = 0;
    const int result =
        hf_elf_object_symbols(elf, type == ET_REL ? SHT_SYMTAB : SHT_DYNSYM, visit_symbol, reading);
    if (result != 0 && result != -ENOENT)
        return unreadable(reading, elf, result);
    return reading->result;
}

static int read_elf(struct reading *reading, uint64_t offset, uint64_t size)
{
    struct hf_elf elf;
    int result = hf_elf_open_object(&elf, reading->descriptor, offset, size);
    if (result != 0)
        return unreadable(reading, &elf, result);
    result = read_opened(reading, &elf);
    hf_elf_close(&elf);
    return result;
}

/* ---- whole files ---------------------------------------------------------------------------- */

enum { MAGIC = 8 };

static bool begins_with(const char *bytes, size_t size, const char *magic, size_t magic_size)
{
    return size >= magic_size && memcmp(bytes, magic, magic_size) == 0;
}

static bool is_elf(const char *bytes, size_t size)
{
    return begins_with(bytes, size, ELFMAG, SELFMAG);
}

static bool is_bitcode(const char *bytes, size_t size)
{
    return begins_with(bytes, size, "BC\xc0\xde", 4) ||
           begins_with(bytes, size, "\xde\xc0\x17\x0b", 4);
}

/* Identifies the file, as far as it is one that builds produce. */
static int not_elf(struct reading *reading, const char *bytes, size_t size)
{
    if (size == 0)
        return fail(reading, -ENOEXEC, "is empty");
    if (hf_archive_kind(bytes, size) == HF_ARCHIVE_THIN)
        return fail(reading, -ENOEXEC,
                    "is a thin archive, which only names its members; give the members, or make it "
                    "without ar's T");
    if (is_bitcode(bytes, size))
        return fail(reading, -ENOEXEC,
                    "is LLVM bitcode, not an object file; compile it without -flto");
    return fail(reading, -ENOEXEC, "is not an object file, an archive or a shared object");
}

/* Reads the first bytes of a file or member, at most MAGIC. Returns their number, or a negative
 * errno after setting the reason. */
static int read_magic(struct reading *reading, uint64_t offset, uint64_t size, char magic[MAGIC])
{
    ssize_t got;
    do
        got = pread(reading->descriptor, magic, size < MAGIC ? (size_t)size : MAGIC, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? fail(reading, -errno, "cannot be read: %s", strerror(errno)) : (int)got;
}

/* Archives also contain other files, such as compiler metadata, which are skipped; bitcode is
 * code. */
static int read_member(struct reading *reading, const struct hf_archive_member *member,
                       size_t *members)
{
    char magic[MAGIC];
    if (member->index)
        return 0;
    const int got = read_magic(reading, member->offset, member->size, magic);
    if (got < 0)
        return got;
    if (is_elf(magic, (size_t)got)) {
        ++*members;
        return read_elf(reading, member->offset, member->size);
    }
    return is_bitcode(magic, (size_t)got) ? not_elf(reading, magic, (size_t)got) : 0;
}

static int read_archive(struct reading *reading, uint64_t size)
{
    struct hf_archive archive;
    struct hf_archive_member member;
    size_t members = 0;
    bool any = false;
    int more;
    hf_archive_begin(&archive, reading->descriptor, size);
    while ((more = hf_archive_next(&archive, &member)) == 1) {
        const int result = read_member(reading, &member, &members);
        if (result != 0)
            return result;
        any = true;
    }
    if (more == -ENOEXEC)
        return fail(reading, more, "is a damaged archive");
    if (more != 0)
        return fail(reading, more, "cannot be read: %s", strerror(-more));
    if (any && members == 0)
        return fail(reading, -ENOEXEC, "is an archive of other things than ELF objects");
    return 0;
}

static int read_file(struct reading *reading)
{
    struct stat status;
    if (fstat(reading->descriptor, &status) != 0)
        return fail(reading, -errno, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(status.st_mode))
        return fail(reading, -EISDIR, "is a directory");
    if (!S_ISREG(status.st_mode))
        return fail(reading, -ENOEXEC, "is not a regular file");

    char magic[MAGIC];
    const uint64_t size = (uint64_t)status.st_size;
    const int got = read_magic(reading, 0, size, magic);
    if (got < 0)
        return got;
    /* A file shorter than an ELF identification may be any text. */
    if (is_elf(magic, (size_t)got) && size >= EI_NIDENT)
        return read_elf(reading, 0, size);
    if (hf_archive_kind(magic, (size_t)got) == HF_ARCHIVE_ORDINARY)
        return read_archive(reading, size);
    return not_elf(reading, magic, (size_t)got);
}

int hf_objects_read(const char *path, hf_objects_found *found, void *argument,
                    struct hf_objects_seen *seen, char *why, size_t why_size)
{
    struct reading reading = {
        .found = found,
        .argument = argument,
        .seen = seen,
        .why = why,
        .why_size = why_size,
    };
    why[0] = '\0';
    /* Without O_NONBLOCK, opening a pipe without a writer would block forever. */
    reading.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reading.descriptor < 0)
        return fail(&reading, -errno, "cannot be opened: %s", strerror(errno));
    const int result = read_file(&reading);
    close(reading.descriptor);
    return result;
}
