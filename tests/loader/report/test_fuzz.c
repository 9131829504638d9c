/*
 * Thousands of damaged copies of a report: bytes, words and whole fields changed, mostly where the
 * structures are. Whatever is read is merged and written in every form, and the document must be
 * JSON. The same seed gives the same copies, so a failure can be repeated:
 *
 *   test-report-fuzz SEED ROUNDS FILE
 */
#include "alloc/diagnose/report_format.h"

#include "show.h"

#include "image.h"
#include "random.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long rounds;
static const char *path;

static size_t interesting_place(size_t size)
{
    const size_t chunk = random_below(size / HF_REPORT_CHUNK) * HF_REPORT_CHUNK;
    switch (random_below(4)) {
    case 0: /* the header, but for the magic and the version */
        return 12 + random_below(offsetof(struct hf_report_header, command));
    case 1: /* what a chunk holds */
        return chunk + random_below(sizeof(struct hf_report_chunk));
    case 2: /* its records */
        return chunk + sizeof(struct hf_report_chunk) + random_below(512);
    default:
        return random_below(size);
    }
}

static void damage(unsigned char *data, size_t size)
{
    static const uint64_t values[] = {0,      1,          2,          0xff,
                                      0xffff, 0xffffffff, UINT64_MAX, UINT64_C(1) << 63};
    for (uint64_t changes = 1 + random_below(8); changes > 0; changes--) {
        const size_t at = interesting_place(size);
        const size_t width = (size_t)1 << random_below(4);
        if (width > size || at > size - width)
            continue;
        uint64_t value = random_below(2) == 0 ? random_next() : values[random_below(8)];
        if (random_below(3) == 0)
            value = random_below(2000); /* a number that could be right */
        memcpy(data + at, &value, width);
    }
}

START_TEST(damaged)
{
    const struct image original = image_read(path);
    unsigned long read = 0;
    ck_assert(show_report(path, NULL, NULL));
    for (unsigned long round = 0; round < rounds; round++) {
        const size_t size = random_below(8) == 0 ? random_below(original.size) : original.size;
        unsigned char *copy = malloc(size + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, original.data, size);
        if (size > 0)
            damage(copy, size);
        const int descriptor = memfd_create("report", MFD_CLOEXEC);
        char name[64];
        ck_assert_int_ge(descriptor, 0);
        ck_assert_int_eq(write(descriptor, copy, size), (ssize_t)size);
        snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
        read += show_report(name, NULL, NULL);
        close(descriptor);
        free(copy);
    }
    /* A fuzzer whose copies are all refused at the door tests the door. */
    printf("%lu of %lu read\n", read, rounds);
    ck_assert_uint_gt(read * 2, rounds);
    free(original.data);
}
END_TEST

int main(int count, char **arguments)
{
    if (count != 4)
        return EXIT_FAILURE;
    rounds = random_rounds(arguments);
    path = arguments[3];
    TCase *tcase = NEW_CASE("report fuzz", damaged);
    tcase_set_timeout(tcase, 200);
    return RUN_CASES("report fuzz", tcase);
}
