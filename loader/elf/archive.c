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

/* Parses a decimal number padded with blanks. The field has ten digits, so the result cannot
 * overflow. */
static bool read_size(const struct ar_hdr *header, uint64_t *size)
{
    size_t i = 0;
    *size = 0;
    for (; i < sizeof header->ar_size && header->ar_size[i] != ' '; i++) {
        if (header->ar_size[i] < '0' || header->ar_size[i] > '9')
            return false;
        *size = *size * 10 + (uint64_t)(header->ar_size[i] - '0');
    }
    const bool any = i > 0;
    for (; i < sizeof header->ar_size; i++)
        if (header->ar_size[i] != ' ')
            return false;
    return any;
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

static int read_header(const struct hf_archive *archive, struct ar_hdr *header)
{
    ssize_t got;
    do
        got = pread(archive->descriptor, header, sizeof *header, (off_t)archive->next);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    return (size_t)got == sizeof *header ? 0 : -ENOEXEC;
}

int hf_archive_next(struct hf_archive *archive, struct hf_archive_member *out)
{
    struct ar_hdr header;
    if (archive->next >= archive->size)
        return 0;
    if (sizeof header > archive->size - archive->next)
        return -ENOEXEC;
    const int result = read_header(archive, &header);
    if (result != 0)
        return result;
    *out = (struct hf_archive_member){.offset = archive->next + sizeof header,
                                      .index = is_index(&header)};
    if (memcmp(header.ar_fmag, ARFMAG, sizeof header.ar_fmag) != 0 ||
        !read_size(&header, &out->size) || out->size > archive->size - out->offset)
        return -ENOEXEC;
    archive->next = out->offset + out->size + (out->size & 1);
    return 1;
}
