/*
 * The start of alloc/: what libhomefree's constructor calls.
 */
#ifndef HOMEFREE_START_H
#define HOMEFREE_START_H

/*
 * Runs the stages of the start in their order: the sealed tables, the heap, the check of what
 * nobody owns, the fork handlers of what lends pages. Called under the dynamic linker's lock; a
 * second call does nothing. A call into libhomefree that comes earlier starts the heap by itself
 * (hf_heap_start()) and rests on no other stage.
 */
void hf_alloc_start_stages(void);

#endif
