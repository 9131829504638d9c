/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What glibc's malloc keeps free while the rest of the process grows.
 *
 * glibc gives back what is free at the end of its heap. A live block there keeps all that is free
 * below it resident, and only callers of glibc's malloc can use that: if they have no need of it
 * any more while others take memory from the system, the process has both. So what has stayed free
 * while others took an eighth as much goes back (malloc_trim); and whatever grows, what has stayed
 * free for 64 times as long as giving it back and faulting it in again takes.
 *
 * Nothing is counted in malloc or free: glibc is asked (mallinfo2) when somebody else has taken
 * memory, or by a thread that looks. From glibc 2.35 on; nothing happens before.
 *
 * libc_spare.c owns what was seen and has the lock, for which nobody waits. Inside it, glibc's
 * locks are taken, one at a time.
 */
#ifndef HOMEFREE_ALLOC_OWNER_LIBC_SPARE_H
#define HOMEFREE_ALLOC_OWNER_LIBC_SPARE_H

/* hf_libc_spare_grown() is declared in alloc/heap/front_end.h. */

/* For a thread that looks once in a while, whatever takes the memory. Reads a file of /proc. */
void hf_libc_spare_look(void);

#endif
