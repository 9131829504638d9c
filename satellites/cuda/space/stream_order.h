/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of work between streams. Owns nothing, takes no lock. Any thread, not in a signal
 * handler.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_STREAM_ORDER_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_STREAM_ORDER_H

/* hf_space_order(). */
int hf_spaces_order(int device, void *before, void *after);

#endif
