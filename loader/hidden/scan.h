/*
 * Finds the references to given addresses in all code of a shared object, and decodes only
 * functions in which bytes look like one.
 *
 * The file is hostile; see image.h. Bytes outside of functions cannot be decoded with certainty: if
 * they look like a reference, they are reported as one.
 *
 * Owns: the set of addresses, until hf_targets_close(). Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_HIDDEN_SCAN_H
#define HOMEFREE_HIDDEN_SCAN_H

#include "loader/hidden/functions.h"
#include "loader/hidden/references.h"

/* A set of ranges of addresses, as a map with a bit for each 16 bytes. It holds whatever shares
 * such a piece with a member, so that the visitor has to look again. */
struct hf_targets {
    uint64_t first, size; /* of whole pages */
    uint8_t *bits;
    const uint64_t *except; /* ascending: calls and jumps to these do not count */
    size_t except_count;
};
/* Makes an empty set for `size` addresses from `first` on. Result: 0 or -ENOMEM. */
int hf_targets_open(struct hf_targets *targets, uint64_t first, uint64_t size);
void hf_targets_close(struct hf_targets *targets);
bool hf_targets_has(const struct hf_targets *targets, uint64_t address, uint64_t size);
bool hf_targets_is_except(const struct hf_targets *targets, uint64_t address);
void hf_targets_add(struct hf_targets *targets, uint64_t address, uint64_t size);

/* A reference at `where` to `target`, in `from`, which is NULL outside of functions. False ends the
 * scan. */
typedef bool hf_scan_visitor(uint64_t where, uint64_t target, const struct hf_function *from,
                             void *context);

/* Visits the references to the targets, in the order of their places. Result: 0, -ENOMEM, or
 * -ENOTSUP: there is code that cannot be decoded, at `*where`. */
int hf_scan(const struct hf_references *references, const struct hf_functions *functions,
            const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
            uint64_t *where);

/* The same where several instructions form an address, for hf_scan(). */
int hf_scan_words(const struct hf_image *image, const struct hf_functions *functions,
                  const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
                  uint64_t *where);

#endif
