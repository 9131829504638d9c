/*
 * The heap's handlers for fork(2). Owns nothing.
 */
#ifndef HOMEFREE_FORK_HANDLERS_H
#define HOMEFREE_FORK_HANDLERS_H

/* Registers the handlers. Called once, by the copy that is the heap. Returns pthread_atfork()'s
 * result. */
int hf_fork_handlers_register(void);

#endif
