/*
 * Marks: who calls libhomefree, exactly, while somebody watches (alloc/watch.h).
 *
 * A return address does not tell it. A module's function that ends in free() jumps there, through
 * the module's hidden free, and what lies on the stack is the address of whoever called the module.
 * So while a watch is open, the slots through which a module reaches the heap's functions point to
 * functions that say which module it is; when the last watch ends they are as before. The rest of
 * the time nothing is slower.
 *
 * Out of reach, and so known by their return address: objects that are not linked with the shim
 * (routed and adopted ones), modules beyond HF_THUNKS_MAX, slots that cannot be written, and
 * functions that may be left in other ways than by returning (scandir, getline, open_memstream).
 */
#ifndef HOMEFREE_CALLER_THUNKS_H
#define HOMEFREE_CALLER_THUNKS_H

#include <link.h>

#define HF_THUNKS_MAX 32

/* Marks an object that has come, if somebody watches. Under the loader's lock, in a session of
 * slot_writes.h. */
void hf_thunks_follow(const struct link_map *map);

/* From now on watches may begin. Called once, by the library's constructor. */
void hf_thunks_start(void);

#endif
