/* A process forks at every single instruction of beginning and ending a watch, as another thread's
 * fork may, which does not wait for the lock of watches: in each child the watch that is open all
 * the while records once. watch.c alone; what it calls is here. */
#include "suite.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/seal.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/instance.h"
#include "alloc/trace/watch.h"
#include "alloc/trace/watch_report.h"
#include "alloc/trace/watch_table.h"
#include "death.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

struct hf_gate_cell hf_gate_cells[HF_GATE_CELLS];
uint32_t hf_gate_forks;
__thread struct hf_gate_cell *hf_gate_own, *hf_gate_inside;

void hf_heap_slow(bool slow)
{
    (void)slow;
}

void hf_gate_wait_long(void)
{
}

void hf_heap_start(void)
{
}

const struct hf_instance_functions *hf_instance_forward(void)
{
    return NULL;
}

const struct link_map *hf_dynlink_find_fast(const void *address)
{
    (void)address;
    return NULL;
}

const char *hf_dynlink_name(const struct link_map *map)
{
    (void)map;
    return "";
}

bool hf_seal_open(struct hf_seal *seal)
{
    (void)seal;
    return true;
}

void hf_seal_open_to_start(struct hf_seal *seal)
{
    (void)seal;
}

void hf_seal_close(const struct hf_seal *seal)
{
    (void)seal;
}

int hf_watch_report_here(struct hf_watch *watch, struct hf_watch_report *out,
                         hf_crossing_visitor *visit, void *context)
{
    (void)watch;
    (void)out;
    (void)visit;
    (void)context;
    return 0;
}

int hf_watch_at_here(struct hf_watch *watch, const void *block, struct hf_watch_block *out)
{
    (void)watch;
    (void)block;
    (void)out;
    return 0;
}

int hf_watch_left_here(struct hf_watch *watch, hf_left_visitor *visit, void *context)
{
    (void)watch;
    (void)visit;
    (void)context;
    return 0;
}

#if defined(__x86_64__)

enum { TRAP = 0x100 }; /* the flag that traps after each instruction */

/* The watches' lock, the only one of base/fork_lock.h in this program. */
extern pthread_mutex_t only_lock __asm__("__start_hf_fork_locks");
static struct hf_watch *always;
static volatile bool stepping;
static size_t steps, failures;

static void check_in_child(void)
{
    static int block;
    stepping = false;
    only_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* as the heap's fork handler does */
    uint64_t before = always->allocations;
    hf_watch_allocated(&block, sizeof block, &block);
    must(always->allocations == before + 1);
    must(hf_watch_end(always) == 0 && hf_watch_end(always) == -EALREADY);
    _exit(0);
}

static void step(int signal, siginfo_t *info, void *context)
{
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    int status;
    (void)signal;
    (void)info;
    *flags = stepping ? *flags | TRAP : *flags & ~(greg_t)TRAP;
    if (!stepping)
        return;
    steps++;
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        check_in_child();
    must(waitpid(child, &status, 0) == child);
    failures += status != 0;
}

static void begin_and_end(void *unused)
{
    (void)unused;
    struct hf_watch *first, *second;
    const struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGTRAP, &action, NULL) == 0);
    must(hf_watch_begin_here(&first, 1) == 0 && hf_watch_begin_here(&always, 1) == 0);
    stepping = true;
    must(raise(SIGTRAP) == 0);
    int ended = hf_watch_end(first), begun = hf_watch_begin_here(&second, 1);
    stepping = false;
    must(ended == 0 && begun == 0 && steps > 100 && failures == 0);
}

CALL_TEST(children_forked_at_any_instruction_record_once, begin_and_end, NULL)

int main(void)
{
    return RUN_SUITE(children_forked_at_any_instruction_record_once);
}

#else

int main(void)
{
    return SKIPPED;
}

#endif
