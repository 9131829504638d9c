/*
 * objects.c - see objects.h.
 *
 * Owns: every use of libelf for this purpose. State lives in one struct reading on the stack.
 * libelf checks offsets against the file; what it leaves open (counts, the meaning of links between
 * sections, what a string holds) is checked here. Files are read, never mapped: a file that another
 * process truncates would otherwise end this one with SIGBUS.
 */
#include "objects.h"

#include "exports.h"

#include <ar.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reading {
    int descriptor;
    hf_objects_found *found;
    void *argument;
    struct hf_objects_seen *seen;
    char *why;
    size_t why_size;
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

static int damaged(struct reading *reading)
{
    const char *reason = elf_errmsg(elf_errno());
    return fail(reading, -ENOEXEC, "is a damaged ELF file: %s",
                reason != NULL ? reason : "its tables contradict each other");
}

/* ---- one symbol table --------------------------------------------------------------------- */

static bool is_function_for_others(const GElf_Sym *symbol)
{
    const unsigned type = GELF_ST_TYPE(symbol->st_info);
    const unsigned binding = GELF_ST_BIND(symbol->st_info);

    /* Assemblers leave the type out when the source does not give it. */
    return symbol->st_shndx != SHN_UNDEF &&
           (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE);
}

static int read_symbol(struct reading *reading, const GElf_Sym *symbol, const char *name)
{
    /* GCC marks objects whose code is still to be compiled; what they define is elsewhere. */
    if (strcmp(name, "__gnu_lto_slim") == 0)
        return fail(reading, -ENOEXEC,
                    "holds only link-time-optimization code, not its symbols; compile it with "
                    "-ffat-lto-objects");
    if (!hf_exports_is_init(name) || !is_function_for_others(symbol))
        return 0;
    /* The name goes into a script that a linker runs: only a symbol may get there. */
    if (hf_exports_symbol_fault(name) != NULL)
        return fail(reading, -ENOEXEC,
                    "defines a PyInit_ symbol whose name no version script can hold");

    const unsigned visibility = GELF_ST_VISIBILITY(symbol->st_other);
    if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) {
        reading->seen->hidden++;
        return 0;
    }
    reading->seen->defined++;
    return reading->found(name, reading->argument);
}

static int read_table(struct reading *reading, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    const size_t entry_size = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
    if (entry_size == 0 || header->sh_entsize != entry_size)
        return fail(reading, -ENOEXEC, "is a damaged ELF file: its symbols have a wrong size");

    Elf_Data *data = elf_getdata(section, NULL);
    if (data == NULL)
        return damaged(reading);

    const size_t count = data->d_size / entry_size;
    for (size_t i = 0; i < count; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, (int)i, &symbol) == NULL)
            return damaged(reading);
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name == NULL)
            return damaged(reading);
        const int result = read_symbol(reading, &symbol, name);
        if (result != 0)
            return result;
    }
    return 0;
}

/* ---- one ELF file or member ---------------------------------------------------------------- */

static int read_elf(struct reading *reading, Elf *elf)
{
    GElf_Ehdr header;
    if (gelf_getehdr(elf, &header) == NULL)
        return damaged(reading);
    if (header.e_type != ET_REL && header.e_type != ET_DYN)
        return fail(reading, -ENOEXEC, "is neither an object file nor a shared object");
    const GElf_Word wanted = header.e_type == ET_REL ? SHT_SYMTAB : SHT_DYNSYM;
    reading->seen->objects++;

    /*
     * libelf leaves the section headers out, and says nothing, when they do not fit into the file:
     * a truncated file would pass for one without symbols.
     */
    size_t sections = 0;
    if (elf_getshdrnum(elf, &sections) != 0 || (sections == 0 && header.e_shoff != 0))
        return damaged(reading);

    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr section_header;
        if (gelf_getshdr(section, &section_header) == NULL)
            return damaged(reading);
        if (section_header.sh_type != wanted)
            continue;
        const int result = read_table(reading, elf, section, &section_header);
        if (result != 0)
            return result;
    }
    return 0;
}

/* ---- whole files --------------------------------------------------------------------------- */

static bool begins_with(const char *bytes, size_t size, const char *magic, size_t magic_size)
{
    return size >= magic_size && memcmp(bytes, magic, magic_size) == 0;
}

static bool is_bitcode(const char *bytes, size_t size)
{
    return begins_with(bytes, size, "BC\xc0\xde", 4) ||
           begins_with(bytes, size, "\xde\xc0\x17\x0b", 4);
}

/* Says what a file is that libelf does not know, as far as a build makes such files. */
static int not_elf(struct reading *reading, const char *bytes, size_t size)
{
    if (size == 0)
        return fail(reading, -ENOEXEC, "is empty");
    if (begins_with(bytes, size, "!<thin>\n", 8))
        return fail(reading, -ENOEXEC,
                    "is a thin archive, which only names its members; give the members, or make it "
                    "without ar's T");
    if (is_bitcode(bytes, size))
        return fail(reading, -ENOEXEC,
                    "is LLVM bitcode, not an object file; compile it without -flto");
    return fail(reading, -ENOEXEC, "is not an object file, an archive or a shared object");
}

/*
 * Where a member ends by its header; -1 when that cannot be had. elf_getarhdr() would say where the
 * file ends instead, if that is sooner.
 */
static int64_t member_end(const struct reading *reading, Elf *member)
{
    struct ar_hdr header;
    const int64_t begin = elf_getbase(member);
    const int64_t at = begin - (int64_t)sizeof header;
    if (at < SARMAG ||
        pread(reading->descriptor, &header, sizeof header, at) != (ssize_t)sizeof header)
        return -1;
    int64_t size = 0;
    for (size_t i = 0; i < sizeof header.ar_size && header.ar_size[i] != ' '; i++) {
        if (header.ar_size[i] < '0' || header.ar_size[i] > '9')
            return -1;
        size = size * 10 + (header.ar_size[i] - '0');
    }
    return begin + size;
}

static int read_member(struct reading *reading, Elf *member, size_t *members)
{
    if (elf_kind(member) == ELF_K_ELF) {
        ++*members;
        return read_elf(reading, member);
    }
    /*
     * Archives hold texts too (indexes, metadata of compilers), but bitcode is code. elf_rawfile()
     * would show the bytes as well, and leaks what it shows.
     */
    char magic[4];
    const ssize_t size = pread(reading->descriptor, magic, sizeof magic, elf_getbase(member));
    return size > 0 && is_bitcode(magic, (size_t)size) ? not_elf(reading, magic, (size_t)size) : 0;
}

static int read_archive(struct reading *reading, Elf *archive, off_t file_size)
{
    static const char fault[] = "is a damaged archive";
    size_t members = 0;
    Elf_Cmd next = file_size > SARMAG ? ELF_C_READ : ELF_C_NULL;
    while (next != ELF_C_NULL) {
        Elf *member = elf_begin(reading->descriptor, next, archive);
        if (member == NULL)
            return fail(reading, -ENOEXEC, "%s", fault);
        const int64_t end = member_end(reading, member);
        int result = 0;
        if (end < 0 || end > file_size)
            result = fail(reading, -ENOEXEC, "%s", fault);
        else
            result = read_member(reading, member, &members);
        next = elf_next(member);
        elf_end(member);
        /* libelf takes a header that is cut off for the end. Members begin at even offsets. */
        if (result == 0 && next == ELF_C_NULL && end + (end & 1) < file_size)
            result = fail(reading, -ENOEXEC, "%s", fault);
        if (result != 0)
            return result;
    }
    if (members == 0 && file_size > SARMAG)
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

    char magic[8];
    const ssize_t size = pread(reading->descriptor, magic, sizeof magic, 0);
    if (size < 0)
        return fail(reading, -errno, "cannot be read: %s", strerror(errno));

    Elf *elf = elf_begin(reading->descriptor, ELF_C_READ, NULL);
    if (elf == NULL)
        return damaged(reading);
    int result = 0;
    if (elf_kind(elf) == ELF_K_ELF)
        result = read_elf(reading, elf);
    else if (elf_kind(elf) == ELF_K_AR)
        result = read_archive(reading, elf, status.st_size);
    else
        result = not_elf(reading, magic, (size_t)size);
    elf_end(elf);
    return result;
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
    if (elf_version(EV_CURRENT) == EV_NONE)
        return fail(&reading, -ENOSYS, "cannot be read: libelf is too old");

    /* Without O_NONBLOCK a pipe that nobody writes to would hold the command forever. */
    reading.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reading.descriptor < 0)
        return fail(&reading, -errno, "cannot be opened: %s", strerror(errno));
    const int result = read_file(&reading);
    close(reading.descriptor);
    return result;
}
