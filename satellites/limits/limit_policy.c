/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See limit_policy.h.
 */
#include "satellites/limits/limit_policy.h"

#include "alloc/base/fork_lock.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

struct hf_policy hf_policies[HF_LIMITS_COUNT];

static pthread_mutex_t HF_FORK_LOCK acting = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_t thread;
    pid_t process; /* atomic: of whose threads one acts; in a forked child, it is the parent's */
} actor;
static const struct hf_cpython *cpython;

void hf_policy_start(void)
{
    if (cpython == NULL)
        cpython = hf_core()->cpython_find(NULL);
}

static bool is_attached(void)
{
    return cpython != NULL && hf_core()->cpython_attached(cpython);
}

/* ---- one at a time ---- */

/* A callback's own allocations. */
static bool is_actor(void)
{
    return __atomic_load_n(&actor.process, __ATOMIC_ACQUIRE) == getpid() &&
           pthread_equal(actor.thread, pthread_self());
}

/* A thread that is attached to CPython does not wait: the callback may need what it holds. */
static bool begin_acting(bool patiently)
{
    if (is_actor())
        return false;
    if (!patiently) {
        if (pthread_mutex_trylock(&acting) != 0)
            return false;
    } else {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_mutex_timedlock(&acting, &until) != 0)
            return false;
    }
    actor.thread = pthread_self();
    __atomic_store_n(&actor.process, getpid(), __ATOMIC_RELEASE);
    return true;
}

static void end_acting(void)
{
    const bool is_here = is_actor(); /* the callback may have forked */
    __atomic_store_n(&actor.process, 0, __ATOMIC_RELEASE);
    if (is_here)
        pthread_mutex_unlock(&acting);
}

/* ---- acting ---- */

struct hf_limit_state hf_policy_state(unsigned limit)
{
    const struct hf_limited *limited = &hf_core()->limited[limit];
    const struct hf_policy *policy = &hf_policies[limit];
    return (struct hf_limit_state){
        .size = sizeof(struct hf_limit_state),
        .name = policy->name,
        .limit = __atomic_load_n(&limited->most, __ATOMIC_RELAXED),
        .used = __atomic_load_n(&limited->used, __ATOMIC_RELAXED),
        .peak = __atomic_load_n(&limited->peak, __ATOMIC_RELAXED),
        .refused = __atomic_load_n(&limited->refused, __ATOMIC_RELAXED),
        .crossings = __atomic_load_n(&policy->crossings, __ATOMIC_RELAXED),
        .mode = policy->mode,
        .objects = __atomic_load_n(&policy->objects, __ATOMIC_RELAXED),
    };
}

/* Whether this is the first time that the limit is reached since it was told. */
static bool is_first(unsigned limit)
{
    bool *crossed = &hf_core()->limited[limit].crossed;
    return !__atomic_load_n(crossed, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(crossed, true, __ATOMIC_RELAXED);
}

static void tell(unsigned limit, uint64_t asked, bool attached)
{
    struct hf_policy *policy = &hf_policies[limit];
    hf_limit_callback *callback = __atomic_load_n(&policy->callback, __ATOMIC_ACQUIRE);
    __atomic_add_fetch(&policy->crossings, 1, __ATOMIC_RELAXED);
    if (callback == NULL)
        return;
    struct hf_limit_state state = hf_policy_state(limit);
    state.python = attached;
    callback(policy->context, &state, asked);
}

void hf_policy_passed(unsigned limit, const void *block)
{
    const int saved_errno = errno;
    const bool attached = is_attached();
    if (!__atomic_load_n(&hf_core()->limited[limit].crossed, __ATOMIC_RELAXED) &&
        begin_acting(false)) {
        if (is_first(limit))
            tell(limit, hf_core()->usable_size(block), attached);
        end_acting();
    }
    errno = saved_errno;
}

bool hf_policy_exceeded(unsigned limit, uint64_t asked)
{
    const bool attached = is_attached(), trims = hf_policies[limit].mode == HF_LIMIT_TRIM;
    if (!begin_acting(trims && !attached))
        return false;
    /* Meanwhile, another thread may have made room. */
    bool again = hf_limited_fits(&hf_core()->limited[limit], asked);
    if (!again && is_first(limit)) {
        if (trims)
            (void)hf_core()->trim(NULL, NULL);
        tell(limit, asked, attached);
        again = trims;
    }
    end_acting();
    return again;
}

void hf_policy_end(unsigned limit)
{
    __atomic_store_n(&hf_policies[limit].callback, NULL, __ATOMIC_RELEASE);
    if (is_actor())
        return;
    pthread_mutex_lock(&acting);
    pthread_mutex_unlock(&acting);
}
