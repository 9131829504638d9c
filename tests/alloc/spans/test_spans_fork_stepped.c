/*
 * A thread forks while another one stands at any single instruction of freeing a third one's block,
 * of taking blocks until it must refill, of giving spans away, and of its own end. In each child,
 * all blocks that the program knows are whole and can be freed, what is taken overlaps nothing, and
 * what other threads of the child free is found again.
 *
 * The gate keeps fork() away from a thread inside (heap/fork_gate.h), so there the steps go on.
 */
#include "core.h"
#include "death.h"
#include "suite.h"

#include "alloc/heap/fork_gate.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)

enum { SIZE = 4000, KNOWN = 40, LATER = 64, OWN = 200 };

/* Whose block is freed: the forking thread's, one's that the child lacks, one's that has ended. */
enum whose { SURVIVORS, MISSING, ENDED };
struct scenario {
    void (*work)(void);
    enum whose whose;
    bool has_heap; /* the thread that works has allocated before */
};
static struct scenario scenario;

static unsigned char *known[KNOWN]; /* [0] is the one that is freed */
static bool stepping, wanted, over, parked;
static unsigned forks, failures;

/* ---- in the child ---- */

static unsigned char *take_filled(unsigned char fill)
{
    unsigned char *block = core_take(SIZE);
    must(block != NULL);
    memset(block, fill, SIZE);
    return block;
}

static void give_checked(unsigned char *block, unsigned char fill)
{
    for (size_t i = 0; i < SIZE; i++)
        must(block[i] == fill);
    must(core_give(block) == -1);
}

static void *give_all(void *blocks)
{
    for (unsigned i = 0; i < LATER; i++)
        give_checked(((unsigned char **)blocks)[i], (unsigned char)(100 + i));
    return NULL;
}

/* A block in a span of this thread's that another one freed, and that nobody told it about. */
static bool has_lost_a_block(void *unused, struct hf_span *span)
{
    (void)unused;
    const uint8_t *states = hf_span_states(span);
    if (span->owner == hf_local_own())
        for (unsigned i = 0; i < span->before + (unsigned)span->blocks; i++)
            must(states[i] != HF_REMOTE);
    return true;
}

static void check_in_child(void)
{
    static unsigned char *blocks[LATER];
    pthread_t thread;
    for (unsigned i = 1; i < KNOWN; i++)
        give_checked(known[i], (unsigned char)i);
    const int wrong = core_give(known[0]); /* may have been freed before the fork */
    must(wrong == -1 || wrong == HF_CORRUPT_FREED || wrong == HF_CORRUPT_NO_BLOCK);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < LATER; i++)
            blocks[i] = take_filled((unsigned char)(100 + i));
        if (round != 0)
            hf_spans_each(has_lost_a_block, NULL);
        must(pthread_create(&thread, NULL, give_all, blocks) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
    _exit(0);
}

static void fork_once(void)
{
    int status;
    core_before_fork();
    const pid_t child = fork();
    if (child == 0) {
        stepping = false;
        alarm(patience(20));
        core_in_child();
        check_in_child();
    }
    core_in_parent();
    must(child > 0 && waitpid(child, &status, 0) == child);
    forks++;
    failures += status != 0;
}

/* ---- steps ---- */

enum { TRAP = 0x100 }; /* the flag that traps after each instruction */

static bool somebody_is_inside(void)
{
    for (unsigned i = 0; i < HF_GATE_CELLS; i++)
        if (__atomic_load_n(&hf_gate_cells[i].inside, __ATOMIC_SEQ_CST) != 0)
            return true;
    return false;
}

static void step(int signal, siginfo_t *info, void *context)
{
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    (void)signal;
    (void)info;
    *flags = stepping ? *flags | TRAP : *flags & ~(greg_t)TRAP;
    if (!stepping || somebody_is_inside())
        return;
    __atomic_store_n(&wanted, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&wanted, __ATOMIC_SEQ_CST))
        sched_yield();
}

static void start_steps(void *unused)
{
    (void)unused;
    stepping = true;
    must(raise(SIGTRAP) == 0);
}

static void stop_steps(void *unused)
{
    (void)unused;
    stepping = false;
}

/* ---- what the stepped thread does ---- */

static void free_one(void)
{
    start_steps(NULL);
    const int wrong = core_give(known[0]);
    stop_steps(NULL);
    must(wrong == -1);
}

static void take_some(void)
{
    unsigned char *blocks[20];
    start_steps(NULL);
    for (unsigned i = 0; i < 20; i++)
        blocks[i] = core_take(SIZE);
    stop_steps(NULL);
    for (unsigned i = 0; i < 20; i++)
        must(blocks[i] != NULL);
}

static void give_spans_away(void)
{
    static unsigned char *blocks[OWN];
    for (unsigned i = 0; i < OWN; i++)
        blocks[i] = core_take(SIZE);
    for (unsigned i = 0; i < OWN; i++) {
        if (i >= OWN - 12)
            start_steps(NULL);
        must(core_give(blocks[i]) == -1);
        stop_steps(NULL);
    }
}

/* The core's own destructor runs between those of a key that is older and of one that is newer. */
static pthread_key_t before_end, after_end;

static void end_with_blocks(void)
{
    for (unsigned i = 0; i < 20; i++)
        must(core_take(SIZE) != NULL);
    must(pthread_setspecific(before_end, &before_end) == 0);
    must(pthread_setspecific(after_end, &after_end) == 0);
}

static void *work(void *unused)
{
    (void)unused;
    if (scenario.has_heap)
        must(core_give(core_take(SIZE)) == -1);
    scenario.work();
    return NULL;
}

/* ---- the others ---- */

static void *own_known(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < KNOWN; i++)
        known[i] = take_filled((unsigned char)i);
    __atomic_store_n(&parked, true, __ATOMIC_SEQ_CST);
    while (scenario.whose == MISSING && !__atomic_load_n(&over, __ATOMIC_SEQ_CST))
        sched_yield();
    return NULL;
}

static void *join_worker(void *thread)
{
    must(pthread_join(*(pthread_t *)thread, NULL) == 0);
    __atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static void run_steps(void *context)
{
    scenario = *(const struct scenario *)context;
    pthread_t owner = pthread_self(), worker, joiner;
    const struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGTRAP, &action, NULL) == 0);
    must(pthread_key_create(&before_end, start_steps) == 0);
    core_start((size_t)1 << 30);
    must(pthread_key_create(&after_end, stop_steps) == 0);
    if (scenario.whose == SURVIVORS) {
        (void)own_known(NULL);
    } else {
        must(pthread_create(&owner, NULL, own_known, NULL) == 0);
        if (scenario.whose == ENDED)
            must(pthread_join(owner, NULL) == 0);
        while (!__atomic_load_n(&parked, __ATOMIC_SEQ_CST))
            sched_yield();
    }
    must(pthread_create(&worker, NULL, work, NULL) == 0);
    must(pthread_create(&joiner, NULL, join_worker, &worker) == 0);
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        if (__atomic_load_n(&wanted, __ATOMIC_SEQ_CST)) {
            fork_once();
            __atomic_store_n(&wanted, false, __ATOMIC_SEQ_CST);
        }
        sched_yield();
    }
    must(pthread_join(joiner, NULL) == 0);
    if (scenario.whose == MISSING)
        must(pthread_join(owner, NULL) == 0);
    must(forks > 10);
    must(failures == 0);
}

#    define STEPPED(name, ...) CALL_TEST(name, run_steps, (&(struct scenario){__VA_ARGS__}))

STEPPED(freeing_the_survivors_block, free_one, SURVIVORS, true)
STEPPED(freeing_the_survivors_block_without_a_heap, free_one, SURVIVORS, false)
STEPPED(freeing_a_missing_threads_block, free_one, MISSING, true)
STEPPED(freeing_an_ended_threads_block, free_one, ENDED, false)
STEPPED(taking_blocks, take_some, SURVIVORS, true)
STEPPED(taking_what_an_ended_thread_left, take_some, ENDED, true)
STEPPED(giving_spans_away, give_spans_away, SURVIVORS, true)
STEPPED(a_threads_end, end_with_blocks, MISSING, true)

int main(void)
{
    return RUN_SUITE(freeing_the_survivors_block, freeing_the_survivors_block_without_a_heap,
                     freeing_a_missing_threads_block, freeing_an_ended_threads_block, taking_blocks,
                     taking_what_an_ended_thread_left, giving_spans_away, a_threads_end);
}

#else

int main(void)
{
    return SKIPPED;
}

#endif
