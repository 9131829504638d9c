/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the key under which each thread that has had a session keeps its record. A record is made by
 * its thread and freed when the thread ends.
 */
#include "satellites/interpreters/thread_states.h"

#include "alloc/base/crash_signals.h"
#include "satellites/interpreters/interpreters_core.h"
#include "satellites/interpreters/registry.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_key_t key;
static bool has_key;
static void (*at_thread_end)(struct hf_thread_record *record);
static atomic_uint era;

/* ---- stacks for signal handlers ---- */

#if !defined(AT_MINSIGSTKSZ)
#    define AT_MINSIGSTKSZ 51
#endif

/* For the handlers themselves, the host's too; the kernel's frame comes on top of it. */
enum { ROOM = 64 * 1024 };

void hf_signal_stack_give(struct hf_signal_stack *stack)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t size = (ROOM + getauxval(AT_MINSIGSTKSZ) + page - 1) & -page;
    stack_t now;
    if (stack->start != NULL || sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0)
        return;
    /* One page below it stays without access. */
    void *start = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return;
    const stack_t ours = {.ss_sp = (char *)start + page, .ss_size = size};
    if (mprotect(ours.ss_sp, size, PROT_READ | PROT_WRITE) != 0 || sigaltstack(&ours, NULL) != 0) {
        (void)munmap(start, page + size);
        return;
    }
    *stack = (struct hf_signal_stack){start, page + size};
}

/* Takes it away again and unmaps it, unless the thread uses another one by now, whose owner may
 * come back to it. */
static void take_signal_stack(struct hf_signal_stack *stack)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;
    const uintptr_t start = (uintptr_t)stack->start;
    if (stack->start == NULL || sigaltstack(NULL, &now) != 0 ||
        (uintptr_t)now.ss_sp - start >= stack->size || sigaltstack(&none, NULL) != 0)
        return;
    (void)munmap(stack->start, stack->size);
    *stack = (struct hf_signal_stack){NULL, 0};
}

/* ---- records ---- */

static void thread_ends(void *argument)
{
    struct hf_thread_record *record = argument;
    if (record->generation == hf_registry_generation()) {
        /* Ending sessions may look at the record. */
        pthread_setspecific(key, record);
        at_thread_end(record);
        pthread_setspecific(key, NULL);
    }
    take_signal_stack(&record->signals);
    hf_free(record->entered);
    hf_free(record->stack);
    hf_free(record);
}

struct hf_thread_record *hf_thread_record(bool make)
{
    if (!has_key)
        return NULL;
    struct hf_thread_record *record = pthread_getspecific(key);
    if (record != NULL || !make)
        return record;
    record = hf_calloc(1, sizeof *record);
    if (record == NULL)
        return NULL;
    record->generation = hf_registry_generation();
    if (pthread_setspecific(key, record) != 0) {
        hf_free(record);
        return NULL;
    }
    return record;
}

void hf_thread_states_start(void (*thread_ends_too)(struct hf_thread_record *record))
{
    at_thread_end = thread_ends_too;
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

void hf_thread_states_in_child(void)
{
    if (has_key)
        pthread_setspecific(key, NULL);
}

unsigned hf_thread_states_era(void)
{
    return atomic_load(&era);
}

void hf_thread_states_expire(void)
{
    atomic_fetch_add(&era, 1);
}

void hf_thread_moves(struct hf_thread_record *record, struct hf_running *running)
{
    const int64_t interpreter = running != NULL ? running->interpreter->id : 0;
    record->running = running;
    if (hf_core()->observer->moved != NULL)
        hf_core()->observer->moved(interpreter > 0 ? interpreter : 0);
}

/* Makes room for one more: first that of interpreters that have ended. */
static bool make_entered_capacity(struct hf_thread_record *record)
{
    size_t kept = 0;
    if (record->entered_count < record->entered_capacity)
        return true;
    for (size_t i = 0; i < record->entered_count; i++) {
        struct hf_interpreter *listed = hf_registry_lock(record->entered[i]);
        if (listed == NULL)
            continue;
        pthread_mutex_unlock(&listed->lock);
        record->entered[kept++] = record->entered[i];
    }
    record->entered_count = kept;
    if (kept < record->entered_capacity / 2)
        return true;
    const size_t capacity = record->entered_capacity * 2 + 8;
    int64_t *entered = hf_realloc(record->entered, capacity * sizeof *entered);
    if (entered == NULL)
        return false;
    record->entered = entered;
    record->entered_capacity = capacity;
    return true;
}

bool hf_thread_enters(struct hf_thread_record *record, int64_t interpreter)
{
    for (size_t i = record->entered_count; i-- > 0;)
        if (record->entered[i] == interpreter)
            return false;
    if (make_entered_capacity(record))
        record->entered[record->entered_count++] = interpreter;
    return true;
}

void hf_threads_ended(int64_t interpreter)
{
    if (hf_core()->observer->ended != NULL && interpreter > 0)
        hf_core()->observer->ended(interpreter);
}

int hf_thread_make(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < HF_CRASH_SIGNALS; i++)
        sigdelset(&blocked, hf_crash_signals[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(&thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    return error == 0 ? 0 : -EAGAIN;
}

#define STACK_MIN (256 << 10) /* a smaller one is left to CPython */

/* Asks for the calling thread's stack, once. glibc reads /proc/self/maps for the main thread's. */
static bool find_stack(struct hf_thread_record *record)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes, guard;
    if (record->stack_start != NULL || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return record->stack_start != NULL;
    if (pthread_attr_getstack(&attributes, &start, &bytes) == 0 &&
        pthread_attr_getguardsize(&attributes, &guard) == 0 && bytes >= guard + STACK_MIN) {
        record->stack_start = (char *)start + guard;
        record->stack_bytes = bytes - guard;
    }
    pthread_attr_destroy(&attributes);
    return record->stack_start != NULL;
}

struct hf_py_thread *hf_thread_state_new(const struct hf_cpython_interpreters *py,
                                         struct hf_thread_record *record,
                                         struct hf_py_interpreter *interpreter)
{
    struct hf_py_thread *thread = py->thread_new(interpreter);
    /* CPython 3.14 asks for the stack anew for each thread state that is attached. */
    if (thread != NULL && py->set_stack != NULL && find_stack(record))
        (void)py->set_stack(thread, record->stack_start, record->stack_bytes);
    return thread;
}

struct hf_py_thread *hf_detach(const struct hf_cpython_interpreters *py)
{
    return py->cpython->current_thread() != NULL && hf_cpython_attached(py->cpython)
               ? py->cpython->detach()
               : NULL;
}

void hf_reattach(const struct hf_cpython_interpreters *py, struct hf_py_thread *thread)
{
    if (thread != NULL)
        py->cpython->attach(thread);
}
