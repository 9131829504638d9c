/*
 * Objects that show the buffer of another one in a layout of their own.
 */
#ifndef HOMEFREE_LAYOUT_H
#define HOMEFREE_LAYOUT_H

#include "python/native/buffer_protocol.h"

/* What an object of the state's type `view` shows: a borrowed reference. */
PyObject *homefree_layout_shown(PyObject *object);

#endif
