/*
 * Frees by other threads alone, after the class of mimalloc-bench's xmalloc-test: half of the
 * threads allocate batches of blocks and push them to one stack, the others pop batches and free
 * them; any consumer gets any producer's. The lock protects the stack; a batch is the side's alone
 * that has it.
 */
#include "field.h"

#include <pthread.h>
#include <sched.h>

enum { BATCH = 256, STACK_MAX = 64 };

static const size_t sizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 288};

struct batch {
    struct batch *next;
    void *blocks[BATCH];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct batch *top;
static size_t waiting; /* batches on the stack */
static size_t to_make, to_take;

/* Whether there is one more of `left` to do; takes it. */
static int take_turn(size_t *left)
{
    pthread_mutex_lock(&lock);
    int more = *left != 0;
    *left -= (size_t)more;
    pthread_mutex_unlock(&lock);
    return more;
}

static void produce(size_t index)
{
    uint64_t random = field_seed(index);
    while (take_turn(&to_make)) {
        struct batch *batch = field_used(malloc(sizeof *batch));
        for (size_t i = 0; i < BATCH; i++) {
            uint64_t number = field_draw(&random) >> 32;
            batch->blocks[i] = field_used(malloc(sizes[number % (sizeof sizes / sizeof *sizes)]));
        }
        for (size_t depth = STACK_MAX; depth >= STACK_MAX;) {
            pthread_mutex_lock(&lock);
            depth = waiting;
            if (depth < STACK_MAX) {
                batch->next = top;
                top = batch;
                waiting++;
            }
            pthread_mutex_unlock(&lock);
            if (depth >= STACK_MAX)
                sched_yield();
        }
    }
}

static void consume(void)
{
    while (take_turn(&to_take)) {
        struct batch *batch = NULL;
        while (batch == NULL) {
            pthread_mutex_lock(&lock);
            batch = top;
            if (batch != NULL) {
                top = batch->next;
                waiting--;
            }
            pthread_mutex_unlock(&lock);
            if (batch == NULL)
                sched_yield();
        }
        for (size_t i = 0; i < BATCH; i++)
            free(batch->blocks[i]);
        free(batch);
    }
}

static void take_part(size_t index, void *argument)
{
    (void)argument;
    if (index % 2 == 0)
        produce(index);
    else
        consume();
}

void field_work(const struct field_call *call)
{
    size_t threads = (field_threads(call, 4) + 1) / 2 * 2;
    to_make = to_take = field_times(call, 16000000) / BATCH + 1;
    field_in_threads(threads, take_part, NULL);
}
