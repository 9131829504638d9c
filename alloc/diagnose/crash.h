/*
 * Crashes inside a foreign allocator: the likely cause is a block of the heap that was passed to
 * that allocator's own free, which its object calls directly and nobody can see.
 *
 * Called by a signal handler. Allocates nothing, owns nothing.
 */
#ifndef HOMEFREE_CRASH_H
#define HOMEFREE_CRASH_H

/* Records a finding if the code that crashed belongs to an object with an allocator of its own, or
 * if that allocator has ended the process with a line about a pointer. The block is the live one of
 * the heap that a register holds, or that the line names; without one it is unknown. number: the
 * signal's. context: the handler's ucontext_t. One thread at a time. */
void hf_crash_judge(int number, const void *context);

#endif
