/*
 * A library that wraps free() and finds the next one by RTLD_NEXT: that means "after me", so the
 * caller of dlsym() must stay the wrapper. The program is linked to the wrapper, and it to what it
 * wraps; heap blocks go home without it, all others pass through it.
 */
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>

extern int counter_calls;
int answer(void);

START_TEST(next_is_what_comes_after_the_wrapper)
{
    ck_assert_int_eq(answer(), 42);
}
END_TEST

START_TEST(foreign_blocks_pass_through_the_wrapper)
{
    /* Check's assertions free, too, so there is none between the two reads of the counter. */
    void *block = malloc(100);
    int before = counter_calls;
    free(block);
    hf_free(malloc(100));
    int after = counter_calls;
    ck_assert_int_eq(after, before + 2);
}
END_TEST

START_TEST(heap_blocks_do_not)
{
    /* Called through a variable, so that the compiler does not treat the block as freed. */
    void (*volatile release)(void *) = free;
    void *block = hf_malloc(1 << 20);
    int before = counter_calls;
    release(block);
    int after = counter_calls;
    struct hf_owner owner = {.size = sizeof owner};
    hf_owner_of(block, &owner);
    ck_assert_ptr_null(owner.block);
    ck_assert_int_eq(after, before);
}
END_TEST

START_TEST(the_default_one_is_the_wrapper_routed)
{
    void (*found)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    int before = counter_calls;
    found(hf_malloc(100));
    found(malloc(100));
    int after = counter_calls;
    ck_assert_int_eq(after, before + 1);
}
END_TEST

int main(void)
{
    return RUN_TESTS("next", next_is_what_comes_after_the_wrapper,
                     foreign_blocks_pass_through_the_wrapper, heap_blocks_do_not,
                     the_default_one_is_the_wrapper_routed);
}
