/* A thousand short-lived threads, each with another kind of first and only use of the heap,
 * leave nothing behind. */
#include "death.h"
#include "growth.h"

#include <homefree/homefree.h>
#include <pthread.h>

static void *allocates(void *unused)
{
    (void)unused;
    hf_free(hf_malloc(100));
    return NULL;
}

static void *only_frees(void *block)
{
    hf_free(block);
    return NULL;
}

static void *only_measures(void *block)
{
    must(hf_usable_size(block) >= 100);
    return NULL;
}

static void *only_asks(void *block)
{
    struct hf_owner owner = {.size = sizeof owner};
    must(hf_owner_of(block, &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    return NULL;
}

static void run_thread(void *(*body)(void *), void *context)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, context) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void one_of_each(void *block)
{
    run_thread(allocates, NULL);
    run_thread(only_frees, hf_malloc(100));
    run_thread(only_measures, block);
    run_thread(only_asks, block);
}

START_TEST(no_growth)
{
    void *block = hf_malloc(100);
    assert_no_growth(one_of_each, block, 50, 300, 256 << 10);
    hf_free(block);
}
END_TEST

int main(void)
{
    return RUN_SUITE(no_growth);
}
