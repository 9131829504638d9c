/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See space_calls.h. Owns the sealed table of the satellite's functions and the handed-in function,
 * and why the satellite could not be opened; a fork lock guards that text. Any stage after the
 * heap's start; what opens the satellite takes the dynamic linker's lock.
 */
#include "alloc/space/space_calls.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/sized.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/fail.h"
#include "alloc/trace/watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

static const struct hf_cuda_core core;

union hf_cuda_sealed hf_cuda_sealed HF_SEALED = {
    .place = {.cuda = {.name = "cuda", .core = &core}},
};

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static HF_APART char why_not[1024]; /* always ends with a zero byte */
static _Atomic(uint64_t) lent;

/* ---- the satellite ---- */

static const struct hf_cuda_satellite *open_satellite(void)
{
    char why[sizeof why_not];
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (HF_LIKELY(cuda != NULL))
        return cuda;
    why[0] = '\0';
    cuda = hf_satellite_open(&hf_cuda_sealed.place.cuda, why, sizeof why);
    pthread_mutex_lock(&lock);
    memcpy(why_not, why, strlen(why) + 1);
    pthread_mutex_unlock(&lock);
    return cuda;
}

void hf_spaces_offer_asking(void (*begin)(void))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    hf_cuda_sealed.place.ask = begin;
    hf_seal_close(&seal);
}

void hf_spaces_in_child(void)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL)
        cuda->in_child();
}

/* ---- what the satellite calls ---- */

static void ask(void)
{
    if (hf_cuda_sealed.place.ask != NULL)
        hf_cuda_sealed.place.ask();
}

/* A space that is opened while another thread forks is not refused: NULL only in a thread that the
 * fork waits for, or if there is no room. */
static void *lend(const struct hf_hosted *hosted, size_t size, size_t alignment)
{
    enum { TRIES = 15 }; /* of two seconds */
    struct hf_pass pass;
    for (int tries = 0; !hf_gate_enter(&pass); tries++) {
        if (tries == TRIES)
            return NULL;
        hf_gate_wait_long();
    }
    void *at = hf_hosted_map(hosted, size, alignment, PROT_READ | PROT_WRITE);
    hf_gate_leave(&pass);
    if (at != NULL)
        atomic_fetch_add(&lent, size);
    return at;
}

static void take_back(void *at, size_t size)
{
    atomic_fetch_sub(&lent, size);
    hf_hosted_unmap(at, size);
}

uint64_t hf_spaces_lent(void)
{
    return atomic_load(&lent);
}

static void resized(void *ptr, size_t size, const void *caller)
{
    if (HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED))) {
        hf_watch_freed(ptr, caller);
        hf_watch_resized(ptr, ptr, size, caller);
    }
}

static const struct hf_cuda_core core = {
    .region = &hf_region,
    .options = &hf_options,
    .malloc = hf_malloc,
    .free = hf_free,
    .alloc_for = hf_space_alloc_for,
    .free_for = hf_space_free_for,
    .resized = resized,
    .lend = lend,
    .take_back = take_back,
    .foreign_reserve = hf_foreign_reserve,
    .foreign_publish = hf_foreign_publish,
    .mark_pages = hf_foreign_pages_set,
    .ask = ask,
    .free_foreign = hf_free_foreign,
    .pin = hf_release_pin,
    .corrupted = hf_space_corrupted,
    .fatal = hf_fatal,
};

/* ---- allocating and freeing ---- */

/* What a call of a space returns where there is no satellite. */
static int without(enum hf_space_kind kind, int device)
{
    const bool is_device = kind == HF_SPACE_DEVICE && device >= 0 && device < HF_DEVICES_MAX;
    return kind == HF_SPACE_PINNED || is_device ? -ENODEV : -EINVAL;
}

static bool is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

int hf_space_alloc_for(void **out, enum hf_space_kind kind, int device, size_t size,
                       size_t alignment, void *stream, const void *caller)
{
    const struct hf_cuda_satellite *cuda = open_satellite();
    if (cuda == NULL)
        return without(kind, device);
    if (!is_watched())
        return cuda->spaces.alloc(out, kind, device, size, alignment, stream);
    /* What the pool needs for itself is not the caller's. */
    const struct hf_watch_call *const before = hf_own_begin();
    const int error = cuda->spaces.alloc(out, kind, device, size, alignment, stream);
    hf_own_end(before);
    if (error == 0)
        hf_watch_allocated(*out, size, caller);
    return error;
}

static __attribute__((noinline, cold)) int free_watched(const struct hf_cuda_satellite *cuda,
                                                        void *ptr, void *stream, const void *caller)
{
    const struct hf_watch_call *const before = hf_watch_call;
    struct hf_space space = {.size = sizeof space};
    int error = 0;
    if (cuda == NULL || cuda->spaces.of(ptr, &space) != 0) {
        const struct hf_watch_call mine = {.caller = caller};
        hf_watch_call = before != NULL ? before : &mine;
        hf_free(ptr);
    } else {
        if (space.block == ptr)
            hf_watch_freed(ptr, caller);
        (void)hf_own_begin();
        error = cuda->spaces.free(ptr, stream);
    }
    hf_watch_call = before;
    return error;
}

int hf_space_free_for(void *ptr, void *stream, const void *caller)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (is_watched())
        return free_watched(cuda, ptr, stream, caller);
    if (cuda != NULL)
        return cuda->spaces.free(ptr, stream);
    hf_free(ptr);
    return 0;
}

/* ---- the others, and for other copies, which count as the callers ---- */

static int alloc_for_copy(void **out, enum hf_space_kind kind, int device, size_t size,
                          size_t alignment, void *stream)
{
    return hf_space_alloc_for(out, kind, device, size, alignment, stream,
                              __builtin_return_address(0));
}

static int free_for_copy(void *ptr, void *stream)
{
    return hf_space_free_for(ptr, stream, __builtin_return_address(0));
}

static int use(void *ptr, void *stream)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    return cuda != NULL ? cuda->spaces.use(ptr, stream) : -EINVAL;
}

static int of(const void *ptr, struct hf_space *out)
{
    struct hf_space space = {.kind = HF_SPACE_HOST, .device = -1};
    if (out == NULL || out->size < offsetof(struct hf_space, device))
        return -EINVAL;
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL && cuda->spaces.of(ptr, out) == 0)
        return 0;
    if (!hf_owned(ptr))
        return -ENOENT;
    space.block_size = hf_heap_block(ptr, &space.block);
    hf_sized_copy(out, &space, sizeof space);
    return 0;
}

static int stats(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL)
        return cuda->spaces.stats(kind, device, stream, out);
    if (out == NULL || out->size < offsetof(struct hf_space_stats, limit) ||
        without(kind, device) == -EINVAL)
        return -EINVAL;
    if (stream != HF_STREAM_ANY)
        return -ENOENT;
    const struct hf_space_stats nothing = {.total = 0};
    hf_sized_copy(out, &nothing, sizeof nothing);
    return 0;
}

static int limit(enum hf_space_kind kind, int device, uint64_t bytes)
{
    const struct hf_cuda_satellite *cuda = open_satellite();
    return cuda != NULL ? cuda->spaces.limit(kind, device, bytes) : without(kind, device);
}

static int trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released)
{
    const struct hf_cuda_satellite *cuda = open_satellite();
    return cuda != NULL ? cuda->spaces.trim(kind, device, keep, released) : without(kind, device);
}

static int reason(enum hf_space_kind kind, int device, char *text, size_t size)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL)
        return cuda->spaces.reason(kind, device, text, size);
    if (text == NULL || size == 0 || (kind != HF_SPACE_HOST && without(kind, device) == -EINVAL))
        return -EINVAL;
    pthread_mutex_lock(&lock);
    const size_t length = kind != HF_SPACE_HOST ? strnlen(why_not, size - 1) : 0;
    memcpy(text, why_not, length);
    pthread_mutex_unlock(&lock);
    text[length] = '\0';
    return 0;
}

static int order(int device, void *before, void *after)
{
    const struct hf_cuda_satellite *cuda = open_satellite();
    return cuda != NULL ? cuda->spaces.order(device, before, after)
                        : without(HF_SPACE_DEVICE, device);
}

const struct hf_space_functions hf_spaces_here = {
    .alloc = alloc_for_copy,
    .free = free_for_copy,
    .use = use,
    .of = of,
    .stats = stats,
    .limit = limit,
    .trim = trim,
    .reason = reason,
    .order = order,
};

/* ---- memory that CUDA gave to others ---- */

void hf_spaces_describe_other(const void *ptr, struct hf_owner *owner)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL)
        cuda->describe(ptr, owner);
}

/* CUDA is there: the call has succeeded. A satellite that cannot be opened is not looked for in
 * each call. */
void hf_spaces_given(const struct hf_cuda_given *given)
{
    static atomic_bool refused;
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (HF_UNLIKELY(cuda == NULL) && !atomic_load_explicit(&refused, memory_order_relaxed)) {
        cuda = open_satellite();
        if (cuda == NULL)
            atomic_store(&refused, true);
    }
    if (cuda != NULL)
        cuda->given(given);
}

int hf_spaces_returned(const struct hf_cuda_returned *returned)
{
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    if (cuda != NULL)
        return cuda->returned(returned);
    /* A caller may have registered blocks of the heap. */
    if (returned->stream == HF_SPACE_UNREGISTERS || returned->stream == HF_SPACE_UNMAPS)
        return returned->function(returned->ptr, returned->second);
    return hf_space_free_for(returned->ptr, returned->stream, returned->caller);
}
