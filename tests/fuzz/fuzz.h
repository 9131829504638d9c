/*
 * What the fuzz targets share.
 *
 * A target is one file with LLVMFuzzerTestOneInput(), the entry point that libFuzzer calls with
 * each input, and that replay.c calls with the inputs in the repository. It asserts with Check's
 * macros, as the other tests do; a failed assertion ends the process (asserts.c).
 */
#ifndef HOMEFREE_TESTS_FUZZ_FUZZ_H
#define HOMEFREE_TESTS_FUZZ_FUZZ_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#undef fail /* Check's old name, which sources that targets include use for something else */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files in memory, by number. Each keeps its descriptor and its path for the whole process. */
enum { FUZZ_FILES = 4 };

/* Gives a file these contents. Returns its path. */
const char *fuzz_file(int number, const void *data, size_t size);

/* The descriptor of a file that has got contents. */
int fuzz_descriptor(int number);

/* Makes a private directory with links to files. Returns its path; it is removed when the process
 * exits. One directory for each process; `links` stays. */
struct fuzz_link {
    const char *name;
    int file;
};
const char *fuzz_directory(const struct fuzz_link *links, size_t count);

/* A part of an input: cut off before the first `mark`, which is dropped; everything if there is
 * none. */
struct fuzz_part {
    const uint8_t *data;
    size_t size;
};
struct fuzz_part fuzz_take(struct fuzz_part *rest, const char *mark);

/* A copy that ends with a zero byte, for the caller to free. Zero bytes in the part end it early.
 */
char *fuzz_text(struct fuzz_part part);

#endif
