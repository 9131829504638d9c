/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adoption: makes a loaded object that does not know homefree allocate from the heap. Users call
 * hf_adopt() (homefree/adopt.h), on any thread; the loader's lock guards all state.
 */
#ifndef HOMEFREE_LOADER_ADOPT_REBIND_H
#define HOMEFREE_LOADER_ADOPT_REBIND_H

#include "alloc/base/dynlink.h"

#include <homefree/homefree.h>

/* Reports the slots of an object that allocate from the heap (routing reports those that resize)
 * and, if adoption was refused, the reason. Calls nothing for an object that was never to be
 * adopted. Called under the loader's lock. */
void hf_adopt_report(const struct hf_object *object, hf_route_visitor *visit, void *context);

#endif
