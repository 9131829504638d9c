/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that show the buffer of another one in a layout of their own.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_LAYOUT_H
#define HOMEFREE_PYTHON_NATIVE_LAYOUT_H

#include "python/native/buffer_protocol.h"

/* What an object of the state's type `view` shows: a borrowed reference. */
PyObject *homefree_layout_shown(PyObject *object);

#endif
