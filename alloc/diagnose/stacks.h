/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks in the report, and deep sites. At a site whose blocks were found in a fault, in this run
 * or in an earlier one, each block gets the number of a deep site: the site and the stack that
 * allocated the block. The file knows only the site itself and, with a finding, the stack.
 *
 * Any thread, at any stage. Takes the records' lock only for a stack that was not seen before. A
 * stack that finds no room is left out.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_STACKS_H
#define HOMEFREE_ALLOC_DIAGNOSE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records a stack. Under the records' lock. Returns what a finding refers to it by; 0: none. */
uint32_t hf_stack_record(const void *const *frames, size_t count);

/* The same for the stack that the calling thread has at this moment, with its Python frames. */
uint32_t hf_stack_record_here(const void *const *frames, size_t count);

/* The number for a block that is being allocated at `site`: of a deep site, or `site` itself if
 * there is no stack. A site that allocates often has a stack taken now and then, and ever less
 * often: `without` receives how many of the thread's next blocks need none. */
uint32_t hf_stack_site(uint32_t site, uint32_t *without);

/* A finding lacks the stack of a block that was allocated at `site`. Returns whether the next
 * blocks there get theirs again, which hf_site_deepen() brings about; a few times for each site.
 * Under the lock. */
bool hf_stack_wanted(uint32_t site);

/* The site that a number from hf_stack_site() or of any site stands for, and its stack as a finding
 * refers to it; 0: none. */
uint32_t hf_stack_base(uint32_t number);
uint32_t hf_stack_of_site(uint32_t number);

/* The place in Python's code (python_stack.h) that belongs to that site; 0: none. */
uint64_t hf_stack_python(uint32_t number);

/* Adds a value to a hash. */
static inline uint64_t hf_stack_mix(uint64_t key, uint64_t value)
{
    key = (key ^ value) * 0x9e3779b97f4a7c15;
    return key ^ key >> 32;
}

/* Forgets what addresses mean, after objects were unloaded. Numbers stay. */
void hf_stacks_unloaded(void);

#endif
