/*
 * Earlier reports that a diagnosed process reads as it starts (`homefree run --diagnose --sites`),
 * in the form of expand.h. Unlike `homefree report`, this runs inside the process.
 */
#include "expand.h"
#include "fuzz.h"

#include "alloc/diagnose/known_sites.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t expanded;
    unsigned char *file = fuzz_expand(data, size, &expanded);
    const char *path = fuzz_file(0, file, expanded);
    const struct hf_report_object object = {.build_size = 20};
    memset(known, 0, sizeof known);
    memset(accessed, 0, sizeof accessed);
    known_count = 0;
    const int result = hf_known_sites_read(path);
    ck_assert(result == 0 || result == -ENOEXEC);
    size_t places = 0, strays = 0;
    for (size_t i = 0; i < KNOWN_ROOM; i++) {
        places += known[i] != 0;
        strays += known[i] == 0 && accessed[i];
    }
    ck_assert_uint_eq(places, known_count);
    ck_assert_uint_eq(strays, 0);
    ck_assert_uint_le(known_count, KNOWN_MAX);
    (void)hf_known_site("/usr/lib/libnone.so", 0x1234, &object);
    free(file);
    return 0;
}
