/*
 * What other copies of libhomefree call of this one (homefree/interpreters.h), and the start of
 * interpreters/. Owns nothing.
 */
#ifndef HOMEFREE_INTERPRETERS_API_H
#define HOMEFREE_INTERPRETERS_API_H

/* Offers the functions to other copies. Before this copy starts. */
void hf_interpreters_offer(void);

/* Registers the fork handler and the key of threads' records. */
void hf_interpreters_prepare(void);

#endif
