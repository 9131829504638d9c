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

unsigned char *fuzz_expand(const uint8_t *data, size_t length, size_t *size)
{
    struct input input = {data, length};
    struct hf_report_chunk chunk;
    struct fuzz_chunk small;
    uint16_t command = 0;
    unsigned char *file = calloc(CHUNKS_MOST + 1, HF_REPORT_CHUNK);
    ck_assert_ptr_nonnull(file);
    *size = take(&input, file, HEADER);
    if (*size < HEADER || take(&input, &command, sizeof command) < sizeof command)
        return file;
    command = command < 4096 ? command : 4096;
    (void)take(&input, file + HEADER, command);
    *size = HF_REPORT_CHUNK;
    while (*size < (size_t)CHUNKS_MOST * HF_REPORT_CHUNK &&
           take(&input, &small, sizeof small) == sizeof small) {
        const size_t body = HF_REPORT_CHUNK - sizeof chunk;
        chunk = (struct hf_report_chunk){
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
