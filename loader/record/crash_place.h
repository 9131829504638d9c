/*
 * Attributes a crash to an object. May be called in a signal handler; see crash_place.c.
 */
#ifndef HOMEFREE_CRASH_PLACE_H
#define HOMEFREE_CRASH_PLACE_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a signal interrupted a thread. Every value may be garbage. */
struct hf_doctor_crash {
    uintptr_t code, stack; /* the thread's program counter and stack pointer */
    bool aborted;          /* the signal came from abort() */
};

/* The object whose code was running and the object that called it, skipping libc, the C++ runtime,
 * the dynamic linker and homefree. Both are NULL if none was found, or if libc or homefree ended
 * the process with a message of their own. The stack is read without faulting, and every word that
 * looks like a return address is taken for one, so the result is a guess. */
struct hf_doctor_place {
    const struct link_map *object, *caller;
    uintptr_t code; /* address in `object` */
};
void hf_doctor_find_place(const struct hf_doctor_crash *crash, struct hf_doctor_place *out);

/* The same, also after such a message. */
void hf_doctor_search_place(const struct hf_doctor_crash *crash, struct hf_doctor_place *out);

/* Where a handler's ucontext_t says that the signal came. */
struct hf_doctor_crash hf_doctor_crash_of(int signal_number, const void *context);

#endif
