/*
 * The pool of sampled blocks (sampled.h) as a hosted allocator (owner/hosted.h): what calls that
 * come from inside libhomefree do with its blocks. Owns a constant table.
 */
#ifndef HOMEFREE_SAMPLED_HOSTED_H
#define HOMEFREE_SAMPLED_HOSTED_H

#include "alloc/owner/hosted.h"

extern const struct hf_hosted hf_sampled_hosted __attribute__((visibility("hidden")));

#endif
