/*
 * The host's allocators in homefree's hands: homefree/host.h says what a user sees of it.
 */
#ifndef HOMEFREE_HOST_H
#define HOMEFREE_HOST_H

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_host_start(void);

#endif
