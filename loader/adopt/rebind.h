/*
 * Adoption: a loaded object that knows nothing of homefree allocates from the heap. Users call
 * hf_adopt() (homefree/adopt.h).
 */
#ifndef HOMEFREE_REBIND_H
#define HOMEFREE_REBIND_H

#include "alloc/base/dynlink.h"

#include <homefree/homefree.h>

/* Tells what adoption has done to an object, for the report: the slots that allocate from the heap
 * (those that resize are routing's to tell), and the reason where it was refused. Calls nothing for
 * an object that nobody asked to adopt. Under the loader's lock. */
void hf_adopt_report(const struct hf_object *object, hf_route_visitor *visit, void *context);

#endif
