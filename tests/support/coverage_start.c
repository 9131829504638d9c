/*
 * Linked into every object of the coverage build (tests/coverage): begins to count in the file
 * before the object's own constructors, of which libhomefree's has priority 101. What ran even
 * earlier, on calls from other objects' constructors, was counted in memory and is added.
 *
 * Owns nothing. Runs once in each object, under the dynamic linker's lock.
 */
#include <stdint.h>

#pragma clang diagnostic ignored "-Wreserved-identifier"

/* Names of clang's runtime for profiles, which starts by itself unless the first is defined. */
extern int __llvm_profile_runtime __attribute__((visibility("hidden")));
int __llvm_profile_runtime;
extern intptr_t __llvm_profile_counter_bias __attribute__((visibility("hidden"), weak));
void __llvm_profile_initialize(void);
uint64_t *__llvm_profile_begin_counters(void);
uint64_t *__llvm_profile_end_counters(void);

__attribute__((constructor(100))) static void start_counting(void)
{
    uint64_t *first = __llvm_profile_begin_counters(), *end = __llvm_profile_end_counters();
    if (first == end)
        return; /* no code in this object is counted */
    __llvm_profile_initialize();
    intptr_t bias = &__llvm_profile_counter_bias != 0 ? __llvm_profile_counter_bias : 0;
    if (bias == 0)
        return;
    for (uint64_t *counter = first; counter < end; counter++)
        if (*counter != 0)
            *(uint64_t *)((uintptr_t)counter + (uintptr_t)bias) += *counter;
}
