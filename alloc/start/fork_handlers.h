/*
 * The heap's handlers for fork(2).
 */
#ifndef HOMEFREE_FORK_HANDLERS_H
#define HOMEFREE_FORK_HANDLERS_H

/* Registers the handlers. Called once, by the copy that is the heap. Result: pthread_atfork's. */
int hf_fork_handlers_register(void);

#endif
