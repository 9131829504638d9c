/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See archive.h. Owns nothing; any thread.
 */
#include "loader/elf/archive.h"

#include <ar.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum hf_archive_kind hf_archive_kind(const void *bytes, size_t size)
{
    static const char thin[] = "!<thin>\n";
    if (size < SARMAG)
        return HF_ARCHIVE_NONE;
    if (memcmp(bytes, ARMAG, SARMAG) == 0)
        return HF_ARCHIVE_ORDINARY;
    return memcmp(bytes, thin, SARMAG) == 0 ? HF_ARCHIVE_THIN : HF_ARCHIVE_NONE;
}

void hf_archive_begin(struct hf_archive *archive, int descriptor, uint64_t size)
{
    *archive = (struct hf_archive){.descriptor = descriptor, .size = size, .next = SARMAG};
}

/* "/" and "/SYM64/" are symbol tables, and "//" is the table of long names. "/12" is an ordinary
 * member whose name is in that table. */
static bool is_index(const struct ar_hdr *header)
{
    static const char *const names[] = {"/               ", "//              ", "/SYM64/         "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (memcmp(header->ar_name, names[i], sizeof header->ar_name) == 0)
            return true;
    return false;
}

/* Result: 0, or a negative errno; -ENOEXEC where the file ends before. */
static int read_at(const struct hf_archive *archive, uint64_t offset, void *out, size_t size)
{
    ssize_t got;
    do
        got = pread(archive->descriptor, out, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    return (size_t)got == size ? 0 : -ENOEXEC;
}

/* Parses a decimal number padded with blanks. No field has more than 16 digits, so that the result
 * cannot overflow. */
static bool read_number(const char *field, size_t length, uint64_t *number)
{
    size_t i = 0;
    *number = 0;
    for (; i < length && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(field[i] - '0');
    }
    const bool any = i > 0;
    for (; i < length; i++)
        if (field[i] != ' ')
            return false;
    return any;
}

/* BSD's form of a long name: "#1/12" says that the member's first 12 bytes are its name. Takes them
 * off the member. Result: 0, or a negative errno. */
static int skip_name(const struct hf_archive *archive, const struct ar_hdr *header,
                     struct hf_archive_member *member)
{
    static const char mark[] = "#1/", index[] = "__.SYMDEF";
    const size_t digits = sizeof mark - 1;
    char name[sizeof index - 1];
    uint64_t length;
    if (memcmp(header->ar_name, mark, digits) != 0)
        return 0;
    if (!read_number(header->ar_name + digits, sizeof header->ar_name - digits, &length) ||
        length > member->size)
        return -ENOEXEC;
    if (length >= sizeof name) {
        const int result = read_at(archive, member->offset, name, sizeof name);
        if (result != 0)
            return result;
        member->index = memcmp(name, index, sizeof name) == 0;
    }
    member->offset += length;
    member->size -= length;
    return 0;
}

int hf_archive_next(struct hf_archive *archive, struct hf_archive_member *out)
{
    struct ar_hdr header;
    if (archive->next >= archive->size)
        return 0;
    if (sizeof header > archive->size - archive->next)
        return -ENOEXEC;
    const int result = read_at(archive, archive->next, &header, sizeof header);
    if (result != 0)
        return result;
    *out = (struct hf_archive_member){.offset = archive->next + sizeof header,
                                      .index = is_index(&header)};
    if (memcmp(header.ar_fmag, ARFMAG, sizeof header.ar_fmag) != 0 ||
        !read_number(header.ar_size, sizeof header.ar_size, &out->size) ||
        out->size > archive->size - out->offset)
        return -ENOEXEC;
    archive->next = out->offset + out->size + (out->size & 1);
    const int skipped = skip_name(archive, &header, out);
    return skipped == 0 ? 1 : skipped;
}
