/*
 * The one seam to NumPy: its data handler (NEP 49).
 *
 * NumPy keeps "the" handler in a context variable, which new threads do not inherit; but all of
 * them begin with NumPy's own default handler, and an array keeps the handler it was made with. So
 * it is the default handler's functions that are replaced, in place: every thread and context
 * follows, and whoever has set a handler of their own keeps it.
 */
#ifndef HOMEFREE_NUMPY_H
#define HOMEFREE_NUMPY_H

#include "loader/host/cpython.h"

#include <homefree/homefree.h>

/*
 * Replaces the functions of the default handler of the NumPy that is imported in the calling
 * thread's interpreter. Where that handler is not one that is known, sets a handler of our own for
 * the calling thread's context. The thread is attached, with no exception set; takes no lock that
 * is held while Python code runs.
 */
enum hf_python_numpy hf_numpy_install(const struct hf_cpython *cpython);

/* From now on arrays get their memory from where they did before. */
void hf_numpy_uninstall(void);

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_numpy_start(void);

#endif
