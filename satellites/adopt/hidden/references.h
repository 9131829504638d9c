/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All places in the code of a shared object where four bytes may refer to an address relative to
 * the program counter, by that address: made in one pass over the code, so that one can ask again
 * and again who refers to what.
 *
 * The file is hostile; see image.h. Memory is limited to four bytes for each byte of code, and is
 * about a third of the code's size.
 *
 * Owns: the tables, until hf_references_close(). Reads the image, which must stay open as long.
 * Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_REFERENCES_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_REFERENCES_H

#include "satellites/adopt/hidden/image.h"

struct hf_references {
    const struct hf_image *image;
    uint64_t first;   /* the address of the first page */
    uint64_t *starts; /* by page: where its places begin. One more at the end */
    uint64_t pages;
    uint32_t *places; /* offsets in the bytes of all code, one stretch after the other */
    struct hf_code_bytes {
        struct hf_stretch stretch;
        uint64_t offset;
    } * code;
    size_t code_count;
};

/* Empty where several instructions form an address. Result: 0, -ENOMEM, or -ENOTSUP: there is more
 * code than 4 GiB. hf_references_close() is harmless after failure. */
int hf_references_open(struct hf_references *references, const struct hf_image *image);
void hf_references_close(struct hf_references *references);

/* The places that refer to the page of an address, as far as the displacement is the instruction's
 * last part: the address that is meant may lie up to four bytes behind. Returns how many. */
size_t hf_references_to_page(const struct hf_references *references, uint64_t address,
                             const uint32_t **places);

/* Where a place is: in which stretch, and at which offset in it. */
const struct hf_stretch *hf_references_place(const struct hf_references *references, uint32_t place,
                                             uint64_t *at);

#define HF_REFERENCES_PAGE 4096

#endif
