/*
 * A stage of libhomefree's start (start/start.h), and what spaces call of higher layers. Owns
 * nothing.
 */
#ifndef HOMEFREE_SPACE_START_H
#define HOMEFREE_SPACE_START_H

/* Registers the fork handler. */
void hf_spaces_start(void);

/* loader/ hands in, from its constructor, the function by which routed calls begin to ask who owns
 * a foreign pointer; called when the first device's memory is reserved. */
void hf_spaces_offer_asking(void (*begin)(void));

#endif
