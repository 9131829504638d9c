/*
 * When routed calls begin to ask foreign allocators: from the first one that is found on. Until
 * then that question costs nothing.
 */
#ifndef HOMEFREE_ASKING_H
#define HOMEFREE_ASKING_H

/* Called once, by the library's constructor (init.c): the function that makes routed calls ask. */
void hf_asking_offer(void (*begin)(void));

/* Makes routed calls ask. Any thread, also in a signal handler; takes no lock. */
void hf_asking_begin(void);

#endif
