/*
 * Names that outlive what the dynamic linker knows: of objects in which an allocator lives.
 */
#ifndef HOMEFREE_KEPT_NAMES_H
#define HOMEFREE_KEPT_NAMES_H

/* A copy that lives for ever; the same one for the same name. "(unnamed)" where there is no more
 * room. Any thread, no lock, no allocation. */
const char *hf_keep_name(const char *name);

#endif
