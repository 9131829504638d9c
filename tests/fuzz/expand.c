/*
 * See expand.h.
 */
#include "expand.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_MOST = 12, HEADER = offsetof(struct hf_report_header, command) };

struct input {
    const uint8_t *at;
    size_t left;
};

static size_t take(struct input *input, void *out, size_t size)
{
    const size_t taken = size < input->left ? size : input->left;
    if (taken > 0)
        memcpy(out, input->at, taken);
    input->at += taken;
    input->left -= taken;
    return taken;
}

/* Makes the file a chunk longer. */
static unsigned char *grow(unsigned char *file, size_t size)
{
    unsigned char *larger = realloc(file, size + HF_REPORT_CHUNK);
    ck_assert_ptr_nonnull(larger);
    memset(larger + size, 0, HF_REPORT_CHUNK);
    return larger;
}

unsigned char *fuzz_expand(const uint8_t *data, size_t length, size_t *size)
{
    const size_t body = HF_REPORT_CHUNK - sizeof(struct hf_report_chunk);
    struct input input = {data, length};
    struct fuzz_chunk small;
    uint16_t command = 0;
    unsigned char *file = grow(NULL, 0);
    *size = take(&input, file, HEADER);
    if (*size < HEADER || take(&input, &command, sizeof command) < sizeof command)
        return file;
    (void)take(&input, file + HEADER, command < 4096 ? command : 4096);
    *size = HF_REPORT_CHUNK;
    while (*size < (size_t)CHUNKS_MOST * HF_REPORT_CHUNK &&
           take(&input, &small, sizeof small) == sizeof small) {
        file = grow(file, *size);
        const struct hf_report_chunk chunk = {
            .type = small.type,
            .used = (small.flags & 1) != 0 ? small.used : small.length,
            .first = small.first,
        };
        memcpy(file + *size, &chunk, sizeof chunk);
        const size_t got =
            take(&input, file + *size + sizeof chunk, small.length < body ? small.length : body);
        if ((small.flags & 2) != 0) {
            *size += sizeof chunk + got;
            break;
        }
        *size += HF_REPORT_CHUNK;
    }
    return file;
}
