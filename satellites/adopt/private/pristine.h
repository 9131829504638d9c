/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loaded object made as it was before its code ran: its data as in the file and relocated, and
 * its constructors run again.
 *
 * No locks. The functions for one object are called by one thread at a time, while no thread is in
 * the object.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_PRISTINE_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_PRISTINE_H

#include "alloc/base/dynlink.h"

struct hf_pristine;

/*
 * Notes the data of an object that was just loaded and routed, of which only constructors have run,
 * and whose file is still there under its name. Result: 0, -ENOTSUP if it cannot be made new, or
 * another negative errno.
 */
int hf_pristine_note(struct hf_pristine **out, const struct link_map *map);

/* Watches what it makes elsewhere (outside.h), and tells what of that is left: NULL for nothing,
 * or else it cannot be made new. */
int hf_pristine_watch(struct hf_pristine *object, const struct link_map *map);
const char *hf_pristine_left(const struct hf_pristine *object);

/* Why an object for all interpreters may have taken over memory of one that has ended, and kept it
 * where nobody else sees it; NULL: its data is as in the file, but for numbers and addresses in
 * loaded objects. Its file is there. */
const char *hf_pristine_keeps(const struct link_map *map);

/* What dlclose() would run, and what dlopen() would do after mapping: between the two the data is
 * made new. Dependencies are finished last and begun first. */
void hf_pristine_finish(const struct hf_pristine *object);
void hf_pristine_restore(struct hf_pristine *object);
void hf_pristine_begin(const struct hf_pristine *object);

/* Makes the calling thread's thread-local storage of the object new, if it has any. */
void hf_pristine_restore_thread(const struct hf_pristine *object, void *handle);

void hf_pristine_forget(struct hf_pristine *object);

#endif
