/*
 * Writing slots: what may be written, RELRO made writable for the time of one object's slots and
 * read-only again, and slots that the loader was resolving meanwhile.
 *
 * A session (begin … end) runs under the loader's lock (lock.h), which serialises sessions.
 */
#ifndef HOMEFREE_SLOT_WRITES_H
#define HOMEFREE_SLOT_WRITES_H

#include "alloc/base/dynlink.h"

/* One object under work; `object` is set by the caller, the rest is zero. */
struct hf_patch {
    struct hf_object *object;
    bool opened; /* its RELRO range is writable */
    bool lazy;   /* the slot written last held another value than expected, outside of RELRO */
    int error;   /* why the object could not be made writable; negative errno */
};

/* `many`: so many objects are to be written that opening /proc/self/mem pays. */
void hf_patch_begin(bool many);
void hf_patch_end(void);

/* Whether the file asks for the slot to be writable at all; looks the segments up once an object.
 */
bool hf_patch_is_writable(struct hf_patch *patch, void **slot);

/* Makes it possible to write the slot; true if it is. Else patch->error says why. */
bool hf_patch_open(struct hf_patch *patch, void **slot);

/* Writes a slot, at the latest in hf_patch_close(), for which hf_patch_is_writable() said yes.
 * `expected` is what it holds as far as the caller knows: where it held another value, it is looked
 * at once more when the session ends. False when it could not be made writable. */
bool hf_patch_write(struct hf_patch *patch, void **slot, void *value, void *expected);

/* Protects the object again, or ends the process. */
void hf_patch_close(struct hf_patch *patch);

/* Whether the process is known to have one thread; false before glibc 2.32. */
bool hf_patch_is_alone(void);

#endif
