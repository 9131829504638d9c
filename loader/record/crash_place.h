/*
 * Whose code it was where a process crashed.
 */
#ifndef HOMEFREE_CRASH_PLACE_H
#define HOMEFREE_CRASH_PLACE_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a signal hit a thread. All of it may be garbage. */
struct hf_doctor_crash {
    uintptr_t code, stack; /* the thread's program counter and stack pointer */
    bool aborted;          /* by abort() */
};

/* Whose code that was: objects that are neither libc, the C++ runtime, the linker nor homefree;
 * NULL where none was found, or where libc or homefree have ended the process with a line of their
 * own. Reads the stack without a fault, and takes what looks like a return address for one: a
 * guess. */
struct hf_doctor_place {
    const struct link_map *object, *caller;
    uintptr_t code; /* in `object` */
};
void hf_doctor_find_place(const struct hf_doctor_crash *crash, struct hf_doctor_place *out);

#endif
