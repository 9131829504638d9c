/*
 * Parcels: what crosses from one interpreter to another. A parcel is a pickle and the memory that
 * the pickle refers to, which is not copied: each piece has a deleter, whose last holder, in
 * whichever interpreter, lets the memory go. A parcel itself is plain memory and belongs to whoever
 * has it; no interpreter need be alive.
 */
#ifndef HOMEFREE_CROSSING_H
#define HOMEFREE_CROSSING_H

#include "python/native/module_state.h"

struct homefree_parcel;

/* A parcel of a bytes object and a sequence of objects with a buffer, which are made to outlive
 * their interpreter as far as possible. NULL with an exception set. */
struct homefree_parcel *homefree_parcel_new(PyObject *module, PyObject *pickle, PyObject *buffers);

/* Another parcel of the same memory; NULL if there is no memory. Any thread. */
struct homefree_parcel *homefree_parcel_copy(const struct homefree_parcel *parcel);

/* A parcel whose pickle is a text; NULL if there is no memory. Any thread. */
struct homefree_parcel *homefree_parcel_of_text(const char *text);

/* A tuple (bytes-like pickle, tuple of Shared objects) in the caller's interpreter. The parcel is
 * used up, also on error. NULL with an exception set. */
PyObject *homefree_parcel_open(PyObject *module, struct homefree_parcel *parcel);

/* Drops a parcel that nobody opened. Any thread. */
void homefree_parcel_drop(struct homefree_parcel *parcel);

/* The name of a capsule with a struct hf_interpreters (interpreters_module.c). */
extern const char homefree_group_name[];

#endif
