/*
 * What owner.c is told by those who see more than it does.
 */
#ifndef HOMEFREE_OWNER_H
#define HOMEFREE_OWNER_H

#include <stdbool.h>

/* Somebody but libc moves the program break, or may have done so before anybody could see it: an
 * address below the break is then libc's only where libc's own data says so. */
extern _Atomic(bool) hf_owner_break_is_shared;

#endif
