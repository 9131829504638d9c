/*
 * The heap's side inside jemalloc: the two hot functions, fused with the ownership test, and the
 * entry points for everything else.
 *
 * homefree.patch includes this file at the end of jemalloc.c, because jemalloc's fast paths are
 * static inlines of that file: hf_malloc and hf_free are then one function each, with no call
 * between the module and jemalloc's cache. This file owns the thread slot, the first thread's data
 * and the emergency data.
 *
 * Any function here may be the first that the process calls. The fast paths fail in a thread
 * without data (the slot's template diverts them), and the slow paths begin with hf_enter(), which
 * starts the heap if necessary.
 *
 * Locks: the emergency lock comes before all of jemalloc's; each is taken only inside the gate
 * (fork_gate.h).
 */
#include "checks.h"
#include "fork_gate.h"
#include "seam.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* For functions of this file that alloc/ calls: keeps jemalloc's private namespace from renaming
 * them. */
#define HF_EXPORT_AS(name) __asm__(name)

tsd_t hf_thread_ended = TSD_INITIALIZER;
tsd_t hf_thread_emergency = TSD_INITIALIZER;
bool hf_thread_no_key;

/* A thread's cache of a ground (ground.h). */
struct hf_ground_cache {
    unsigned arena;
    unsigned number; /* the tcache's, for jemalloc */
    tcache_t *tcache;
};
enum { HF_GROUND_CACHES = 8 }; /* grounds that a thread caches at a time, at most */

/* A thread's data: jemalloc's, and the heap's additions. */
struct hf_thread_data {
    tsd_t tsd;                      /* first, so that a pointer to one is a pointer to the other */
    struct hf_thread_data *put_off; /* next one that ended while the gate was closed */
    struct hf_thread_data *next;    /* in left_data.h's list */
    struct hf_gate_cell *cell;      /* the owner's; goes with the data in left_data.h */
    int thread;                     /* the owner's thread id, for left_data.h; 0: unknown */
    unsigned slow_calls;            /* for kept_data.h, like the next two */
    size_t kept_bytes;
    uint64_t kept_since;                              /* in milliseconds */
    struct hf_ground_cache grounds[HF_GROUND_CACHES]; /* by the arena's number */
};
#include "left_data.h"

static struct hf_thread_data hf_thread_first;
static atomic_b_t hf_thread_first_taken = ATOMIC_INIT(false);
/* As HF_FORK_LOCK in base/fork_lock.h, which this side cannot include. */
#define HF_FORK_LOCK __attribute__((section("hf_fork_locks"), aligned(64)))
static pthread_mutex_t HF_FORK_LOCK hf_emergency_lock = PTHREAD_MUTEX_INITIALIZER;

__thread tsd_t *hf_thread_slot __attribute__((tls_model("initial-exec"), visibility("hidden"))) =
    &tsd_tls;

/* ---- a thread's data ---- */

/* The calling thread's data; NULL if it has none of its own. */
JEMALLOC_ALWAYS_INLINE tsd_t *hf_thread_current(void)
{
    tsd_t *tsd = hf_thread_slot;
    return likely(tsd != &tsd_tls && tsd != &hf_thread_ended) ? tsd : NULL;
}

#include "cache_top.h"
static void hf_thread_clean_up(tsd_t *tsd);
#include "kept_data.h"

static tsd_t *hf_thread_create(void)
{
    bool taken = false;
    tsd_t *left = unlikely(hf_thread_no_key) ? hf_left_take() : NULL;
    if (left != NULL) {
        struct hf_gate_cell **cell = &((struct hf_thread_data *)left)->cell;
        if (hf_gate_own == NULL)
            hf_gate_own = *cell;
        hf_gate_claim();
        *cell = hf_gate_own;
        return hf_thread_slot = left;
    }
    struct hf_thread_data *data = hf_kept_take();
    if (data != NULL) {
        hf_gate_claim();
        data->cell = hf_gate_own;
        hf_thread_slot = &data->tsd;
        tsd_set(&data->tsd);
        return &data->tsd;
    }
    if (atomic_compare_exchange_strong_b(&hf_thread_first_taken, &taken, true, ATOMIC_ACQ_REL,
                                         ATOMIC_RELAXED))
        data = &hf_thread_first;
    else
        data = malloc_tsd_malloc(sizeof(struct hf_thread_data));
    if (data == NULL)
        return NULL;
    memcpy(&data->tsd, &tsd_tls, sizeof(tsd_t));
    memset(data->grounds, 0, sizeof data->grounds);
    data->slow_calls = 0;
    tsd_hf_topsp_get_unsafe(&data->tsd)->ticks = HF_TICKS;
    hf_gate_claim();
    data->cell = hf_gate_own;
    if (unlikely(hf_thread_no_key))
        hf_left_enter(data);
    return hf_thread_slot = &data->tsd;
}

tsd_t *hf_thread_own(tsd_t *tsd)
{
    if (likely(tsd != &tsd_tls && tsd != &hf_thread_ended))
        return tsd;
    tsd = hf_thread_create();
    if (tsd == NULL)
        hf_heap_fatal_memory();
    return tsd;
}

/* Tears an ended thread's data down. Called inside the gate, by that thread or on its behalf. */
static void hf_thread_clean_up(tsd_t *tsd)
{
    tsd_t *mine = hf_thread_slot;
    hf_thread_slot = tsd;
    tsd_cleanup(tsd);
    hf_thread_slot = mine;
    /* Here jemalloc asks for another round of destructors. There may be none left (destructors that
     * run later in every round), and the data would leak: later calls use the emergency data. */
    bool has_data =
        mine != tsd && mine != &tsd_tls && mine != &hf_thread_ended && mine != &hf_thread_emergency;
    (void)pthread_setspecific(tsd_tsd, has_data ? mine : NULL);
    if (tsd != &hf_thread_first.tsd)
        malloc_tsd_dalloc(tsd);
}

/* Keeps an ended thread's data for the next thread, or tears it down. Called like the former. */
static void hf_ground_end(tsd_t *tsd);
static void hf_thread_release(tsd_t *tsd)
{
    tsd_t *mine = hf_thread_slot;
    hf_thread_slot = tsd;
    hf_ground_end(tsd);
    bool keep = hf_kept_prepare(tsd);
    /* Another thread may take what is kept at once; a signal handler here may allocate. */
    hf_thread_slot = keep && mine == tsd ? &hf_thread_ended : mine;
    if (!keep || !hf_kept_put((struct hf_thread_data *)tsd))
        hf_thread_clean_up(tsd);
}

static void hf_put_off_thread(tsd_t *tsd);

void hf_thread_end(void *data)
{
    tsd_t *tsd = data;
    struct hf_pass pass;
    hf_thread_slot = tsd;
    if (hf_gate_enter(&pass)) {
        hf_thread_release(tsd);
        hf_thread_slot = &hf_thread_ended;
        hf_gate_leave(&pass);
    } else {
        hf_thread_slot = &hf_thread_ended;
        hf_put_off_thread(tsd);
    }
    hf_gate_disclaim();
}

/* Call under the emergency lock, or in a child whose only thread this is. */
static void hf_thread_use_emergency(void)
{
    if (tsd_state_get(&hf_thread_emergency) == tsd_state_uninitialized)
        tsd_atomic_store(&hf_thread_emergency.state, tsd_state_purgatory, ATOMIC_RELAXED);
    hf_thread_slot = &hf_thread_emergency;
}

/* The state of a call into the heap; see hf_enter(). */
struct hf_call {
    struct hf_pass pass;
    tsd_t *before; /* the slot's value that the emergency data replaces */
};

/*
 * Begins every call that takes a lock of the heap. Afterwards the calling thread has data. If it
 * cannot have any (no memory, or its own is gone), it uses the emergency data, which has no caches,
 * under the emergency lock. False while the process forks: then the caller must do without the
 * heap's locks.
 */
JEMALLOC_ALWAYS_INLINE bool hf_enter(struct hf_call *call)
{
    tsd_t *tsd = hf_thread_slot;
    if (unlikely(tsd == &tsd_tls))
        hf_heap_start();
    if (unlikely(!hf_gate_enter(&call->pass)))
        return false;
    call->before = NULL;
    if (likely(tsd != &tsd_tls && tsd != &hf_thread_ended))
        return true;
    if (tsd == &tsd_tls && (hf_thread_slot != &tsd_tls || hf_thread_create() != NULL))
        return true;
    pthread_mutex_lock(&hf_emergency_lock);
    hf_thread_use_emergency();
    call->before = tsd;
    return true;
}

/* The same for calls that need memory from the heap: waits for the fork to finish if that may
 * help. */
JEMALLOC_ALWAYS_INLINE bool hf_enter_patiently(struct hf_call *call)
{
    return likely(hf_enter(call)) || (hf_gate_wait() && hf_enter(call));
}

JEMALLOC_ALWAYS_INLINE void hf_leave(const struct hf_call *call)
{
    if (unlikely(call->before != NULL)) {
        hf_thread_slot = call->before;
        pthread_mutex_unlock(&hf_emergency_lock);
    }
    hf_gate_leave(&call->pass);
}

#include "page_map.h"

/* ---- checks ---- */

/*
 * The usable size of a live block; ends the process if ptr is none, because jemalloc itself would
 * follow whatever it finds. Small blocks are checked as far as the slab allows without a lock: this
 * detects an address inside a block, and a block already returned to its slab. A block that was
 * freed into a cache is detected only if it is the last one in this thread's; with checks:full
 * there are no caches.
 */
static size_t hf_block_check(const void *ptr, const void *caller, enum hf_corruption purpose)
{
    emap_full_alloc_ctx_t found;
    tsd_t *tsd = hf_thread_current();
    if (emap_full_alloc_ctx_try_lookup(tsd_tsdn(tsd), &arena_emap_global, ptr, &found) ||
        found.edata == NULL || found.szind >= SC_NSIZES ||
        edata_state_get(found.edata) != extent_state_active)
        hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_NO_BLOCK);
    uintptr_t first = (uintptr_t)edata_addr_get(found.edata);
    if (!found.slab) {
        if ((uintptr_t)ptr != first)
            hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_INSIDE);
    } else {
        const bin_info_t *info = &bin_infos[found.szind];
        size_t offset = (uintptr_t)ptr - first, index = offset / info->reg_size;
        if (index * info->reg_size != offset || index >= info->nregs)
            hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_INSIDE);
        if (!bitmap_get(edata_slab_data_get(found.edata)->bitmap, &info->bitmap_info, index))
            hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_FREED);
    }
    if (found.szind < TCACHE_NBINS_MAX && tsd != NULL && tsd_nominal(tsd) &&
        tcache_available(tsd)) {
        cache_bin_t *bin = &tsd_tcachep_get(tsd)->bins[found.szind];
        /* The word above an empty bin belongs to another bin. */
        if (*hf_top_of(tsd, found.szind) == ptr ||
            (bin->low_bits_empty != (uint16_t)(uintptr_t)bin->stack_head &&
             *bin->stack_head == ptr))
            hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_FREED);
    }
    return edata_usize_get(found.edata);
}

void hf_corrupted_cached(const void *ptr)
{
    hf_heap_corrupted(ptr, NULL, HF_CORRUPT_IN_FREE, HF_CORRUPT_FREED_CACHED);
}

/* ---- watching ---- */

/* While a watch is open or calls are counted, every call takes a slow path, so the fast paths need
 * no test. */
JEMALLOC_ALWAYS_INLINE bool hf_is_watched(void)
{
    return unlikely(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

#include "depot.h"

static void hf_look_now_and_then(int ticks);

/* What is due every now and then; called in the slow paths that allocate. */
JEMALLOC_ALWAYS_INLINE void hf_tidy(void)
{
    hf_kept_age();
    hf_look_now_and_then(0);
}

/* ---- a full region ---- */

/* Returns all address space that an arena retains unused to the region. Another arena may then get
 * parts of what this one once mapped, so extents merge if they have the same arena number
 * (homefree.patch), not the same original mapping. */
static void hf_return_space(tsdn_t *tsdn, arena_t *arena)
{
    pac_t *pac = &arena->pa_shard.pac;
    ehooks_t *ehooks = arena_get_ehooks(arena);
    edata_t *extent;
    while ((extent = ecache_evict(tsdn, pac, ehooks, &pac->ecache_retained, 0)) != NULL)
        extent_destroy_wrapper(tsdn, pac, ehooks, extent);
}

/*
 * Makes room after a failed allocation, and returns whether to try again. An arena keeps freed
 * pages dirty for a while and their address space for ever, does not split a long dirty extent for
 * a short request, and gives nothing to other arenas: if space is short (the region, RLIMIT_DATA),
 * most of it may be free and out of reach. So all free space returns to the region, where every
 * arena can get it. One thread at a time: jemalloc skips an arena that another thread is purging.
 * Another thread may take the space first, hence several tries.
 */
enum { HF_RETRIES = 3 };
static pthread_mutex_t HF_FORK_LOCK hf_retry_lock = PTHREAD_MUTEX_INITIALIZER;

static bool hf_retry(size_t size)
{
    if (size > hf_region.limit)
        return false;
    tsd_t *tsd = tsd_fetch();
    hf_kept_release(0);
    hf_depot_release(tsd);
    pthread_mutex_lock(&hf_retry_lock);
    if (tsd_nominal(tsd) && tcache_available(tsd))
        tcache_flush(tsd);
    for (unsigned i = 0; i < narenas_total_get(); i++) {
        arena_t *arena = arena_get(tsd_tsdn(tsd), i, false);
        if (arena == NULL || !ehooks_are_default(arena_get_ehooks(arena)))
            continue;
        arena_decay(tsd_tsdn(tsd), arena, false, true);
        hf_return_space(tsd_tsdn(tsd), arena);
    }
    pthread_mutex_unlock(&hf_retry_lock);
    return true;
}

#include "put_off.h"

/* ---- the two hot functions ---- */

void *hf_malloc_entry(size_t size) HF_EXPORT_AS("hf_malloc") JEMALLOC_ATTR(visibility("default"));
void hf_free_entry(void *ptr) HF_EXPORT_AS("hf_free") JEMALLOC_ATTR(visibility("default"));
size_t hf_heap_room_entry(const void *ptr) HF_EXPORT_AS("hf_heap_room");

#include "resize.h"

/* ---- blocks with guards ---- */

/* Call inside the gate, with checks:full. */
static void *hf_checked_malloc(size_t alignment, size_t size, bool zero)
{
    void *ptr = NULL;
    if (!hf_check_room(size))
        return NULL;
    for (int tries = 0; tries < 2 && (tries == 0 || hf_retry(size)); tries++) {
        if (alignment != 0)
            (void)je_posix_memalign(&ptr, alignment, size + HF_GUARD);
        else
            ptr = zero ? je_calloc(1, size + HF_GUARD) : malloc_default(size + HF_GUARD);
        if (likely(ptr != NULL)) {
            hf_check_mark(ptr, arena_salloc(tsdn_fetch(), ptr), size);
            return ptr;
        }
    }
    set_errno(ENOMEM);
    return NULL;
}

/* ptr and its guard have been checked; `usable` is the block's size, `old` the requested one. */
static void *hf_checked_realloc(void *ptr, size_t usable, size_t old, size_t size)
{
    void *resized = NULL;
    if (size == 0) {
        free_default(ptr);
        return NULL;
    }
    if (!hf_check_room(size))
        return NULL;
    hf_check_wipe(ptr, usable, old);
    for (int tries = 0; resized == NULL && tries < 2 && (tries == 0 || hf_retry(size)); tries++)
        resized = hf_resize(ptr, usable, size + HF_GUARD);
    if (resized == NULL)
        hf_check_mark(ptr, usable, old);
    else
        hf_check_mark(resized, arena_salloc(tsdn_fetch(), resized), size);
    return resized;
}

/* The usable size that the block's owner may use, after all checks. */
static size_t hf_block_size(const void *ptr, const void *caller, enum hf_corruption purpose)
{
    size_t usable = hf_block_check(ptr, caller, purpose);
    return likely(!hf_checks_full) ? usable : hf_check_verify(ptr, usable, caller, purpose);
}

/* Call inside the gate, in the copy that is the heap. */
JEMALLOC_ALWAYS_INLINE void *hf_malloc_inside(size_t size)
{
    if (unlikely(hf_checks_full))
        return hf_checked_malloc(0, size, false);
    hf_depot_before_malloc(size);
    void *ptr = malloc_default(size);
    for (int i = 0; unlikely(ptr == NULL) && i < HF_RETRIES && hf_retry(size); i++)
        ptr = malloc_default(size);
    return ptr;
}

static JEMALLOC_NOINLINE void *hf_malloc_watched(size_t size, const void *caller)
{
    if (hf_fail_now()) {
        set_errno(ENOMEM);
        return NULL;
    }
    void *ptr = hf_malloc_inside(size);
    if (ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    return ptr;
}

/* Reached only by a tail call, so that the return address is that of hf_malloc's caller. */
static JEMALLOC_NOINLINE void *hf_malloc_slow(size_t size)
{
    struct hf_call call;
    if (unlikely(hf_forward != NULL))
        return hf_forward->malloc(size);
    if (unlikely(!hf_enter_patiently(&call)))
        return hf_fork_aligned(0, size);
    hf_tidy();
    /* Entering may have shown that another copy is the heap. */
    void *ptr;
    if (unlikely(hf_forward != NULL))
        ptr = hf_forward->malloc(size);
    else if (hf_is_watched())
        ptr = hf_malloc_watched(size, __builtin_return_address(0));
    else
        ptr = hf_malloc_inside(size);
    hf_leave(&call);
    return ptr;
}

static JEMALLOC_NOINLINE void hf_free_slow(void *ptr, const void *caller)
{
    struct hf_call call;
    if (unlikely(hf_forward != NULL)) {
        hf_forward->free(ptr);
        return;
    }
    if (unlikely(hf_hosted_free(ptr, caller)))
        return;
    int saved_errno = get_errno();
    if (likely(hf_enter(&call))) {
        tsd_t *tsd = tsd_fetch_min();
        const szind_t class = (szind_t)(hf_page_word((uintptr_t)ptr) >> LG_VADDR);
        hf_block_size(ptr, caller, HF_CORRUPT_IN_FREE);
        if (hf_is_watched())
            hf_watch_freed(ptr, caller);
        hf_depot_before_free(ptr);
        free_default(ptr);
        hf_top_raise(tsd, class, ptr);
        hf_look_now_and_then(HF_TICKS_FREE);
        hf_leave(&call);
    } else {
        hf_put_off_free(ptr, hf_block_size(ptr, caller, HF_CORRUPT_IN_FREE), caller);
    }
    set_errno(saved_errno);
}

#include "free_cached.h"
#include "medium_path.h"

void *hf_malloc_entry(size_t size)
{
    tsd_t *tsd = hf_thread_slot;
    if (unlikely(size > SC_LOOKUP_MAXCLASS))
        return hf_malloc_medium(size);
    void *ptr = hf_top_take(tsd, sz_size2index_lookup(size));
    return likely(ptr != NULL) ? ptr : hf_malloc_medium(size);
}

void hf_free_entry(void *ptr)
{
    if (unlikely((uintptr_t)ptr - hf_region.base >= hf_region.size)) {
        hf_free_foreign(ptr);
        return;
    }
    if (unlikely(!hf_free_cached(ptr)))
        hf_free_medium(ptr, __builtin_return_address(0));
}

#include "sized_path.h"

/* ---- entry points for alloc/ ---- */

/* Call these only when the heap has started and is not forwarded; see start/api.c. */

void *hf_heap_calloc_entry(size_t count, size_t size) HF_EXPORT_AS("hf_heap_calloc");
void *hf_heap_realloc_entry(void *ptr, size_t size, const void *caller)
    HF_EXPORT_AS("hf_heap_realloc");
void *hf_heap_aligned_entry(size_t alignment, size_t size) HF_EXPORT_AS("hf_heap_aligned");
size_t hf_heap_block_entry(const void *ptr, const void **block) HF_EXPORT_AS("hf_heap_block");
size_t hf_heap_usable_entry(const void *ptr, const void *caller) HF_EXPORT_AS("hf_heap_usable");
size_t hf_heap_asked_entry(const void *ptr, const void *caller) HF_EXPORT_AS("hf_heap_asked");
int hf_heap_control_entry(const char *name, void *out, size_t *out_size, void *in, size_t in_size)
    HF_EXPORT_AS("hf_heap_control");
uint64_t hf_heap_cached_entry(void) HF_EXPORT_AS("hf_heap_cached");
bool hf_heap_boot_entry(const char *options, enum hf_checks checks) HF_EXPORT_AS("hf_heap_boot");
void hf_heap_slow_entry(bool slow) HF_EXPORT_AS("hf_heap_slow");
void hf_heap_catch_up_entry(void) HF_EXPORT_AS("hf_heap_catch_up");
void hf_heap_reset_in_child_entry(void) HF_EXPORT_AS("hf_heap_reset_in_child");

void *hf_heap_calloc_entry(size_t count, size_t size)
{
    struct hf_call call;
    size_t bytes;
    if (unlikely(!hf_enter_patiently(&call)))
        return hf_fork_calloc(count, size);
    hf_tidy();
    bool possible = !__builtin_mul_overflow(count, size, &bytes);
    void *ptr;
    if (unlikely(hf_checks_full) && possible) {
        ptr = hf_checked_malloc(0, bytes, true);
    } else {
        hf_depot_before_malloc(possible ? bytes : SIZE_MAX);
        ptr = je_calloc(count, size);
        for (int i = 0; unlikely(ptr == NULL) && possible && i < HF_RETRIES && hf_retry(bytes); i++)
            ptr = je_calloc(count, size);
    }
    hf_leave(&call);
    return ptr;
}

/* The gate is closed: moves the block to libc's memory. */
static void *hf_realloc_outside(void *ptr, size_t size, const void *caller)
{
    size_t usable = hf_block_size(ptr, caller, HF_CORRUPT_IN_REALLOC);
    void *moved = NULL;
    if (size != 0) {
        moved = hf_fork_aligned(0, size);
        if (moved == NULL)
            return NULL;
        memcpy(moved, ptr, size < usable ? size : usable);
    }
    hf_put_off_free(ptr, usable, caller);
    return moved;
}

void *hf_heap_realloc_entry(void *ptr, size_t size, const void *caller)
{
    struct hf_call call;
    if (unlikely(!hf_enter_patiently(&call)))
        return hf_realloc_outside(ptr, size, caller);
    tsd_t *tsd = tsd_fetch();
    size_t usable = hf_block_check(ptr, caller, HF_CORRUPT_IN_REALLOC), asked = 0;
    if (unlikely(hf_checks_full))
        asked = hf_check_verify(ptr, usable, caller, HF_CORRUPT_IN_REALLOC);
    bool watched = hf_is_watched();
    if (watched) {
        if (size != 0 && hf_fail_now()) {
            hf_leave(&call);
            set_errno(ENOMEM);
            return NULL;
        }
        hf_watch_freed(ptr, caller);
    }
    void *resized;
    if (unlikely(hf_checks_full)) {
        resized = hf_checked_realloc(ptr, usable, asked, size);
    } else {
        resized = hf_resize(ptr, usable, size);
        for (int i = 0; unlikely(resized == NULL) && size != 0 && i < HF_RETRIES && hf_retry(size);
             i++)
            resized = hf_resize(ptr, usable, size);
    }
    if (resized != ptr && (resized != NULL || size == 0))
        hf_top_raise(tsd, sz_size2index(usable), ptr);
    if (unlikely(resized == NULL) && size != 0)
        set_errno(ENOMEM); /* jemalloc leaves this to mmap, but not every failure is mmap's */
    if (unlikely(watched) && (resized != NULL || size != 0))
        hf_watch_resized(ptr, resized, size, caller);
    hf_leave(&call);
    return resized;
}

void *hf_heap_aligned_entry(size_t alignment, size_t size)
{
    struct hf_call call;
    void *ptr = NULL;
    if (unlikely(!hf_enter_patiently(&call)))
        return hf_fork_aligned(alignment, size);
    hf_tidy();
    int error = 0;
    if (unlikely(hf_checks_full)) {
        ptr = hf_checked_malloc(alignment, size, false);
        error = ptr == NULL ? ENOMEM : 0;
    } else {
        if (alignment <= PAGE && size <= SC_SMALL_MAXCLASS)
            hf_depot_before_malloc(ALIGNMENT_CEILING(size, alignment));
        error = je_posix_memalign(&ptr, alignment, size);
        for (int i = 0; unlikely(error == ENOMEM) && i < HF_RETRIES && hf_retry(size); i++)
            error = je_posix_memalign(&ptr, alignment, size);
    }
    hf_leave(&call);
    if (error != 0) {
        set_errno(error);
        return NULL;
    }
    return ptr;
}

#include "find_block.h"
#include "ground.h"
#include "thread_caches.h"

size_t hf_heap_usable_entry(const void *ptr, const void *caller)
{
    return hf_block_size(ptr, caller, HF_CORRUPT_IN_MEASURE);
}

size_t hf_heap_asked_entry(const void *ptr, const void *caller)
{
    return hf_block_size(ptr, caller, HF_CORRUPT_IN_FREE);
}

int hf_heap_control_entry(const char *name, void *out, size_t *out_size, void *in, size_t in_size)
{
    struct hf_call call;
    for (int tries = 0; !hf_enter(&call); tries++) {
        if (tries == 100)
            return -EAGAIN;
        hf_gate_pause(1000000);
    }
    int error = je_mallctl(name, out, out_size, in, in_size);
    hf_leave(&call);
    return -error;
}

/* jemalloc says when it has no memory for a thread's cache, and goes on without one; and why it
 * cannot start, which our own message does. */
static void hf_say_nothing(void *context, const char *text)
{
    (void)context, (void)text;
}

bool hf_heap_boot_entry(const char *options, enum hf_checks checks)
{
    hf_left_process = (int)getpid();
    if (checks == HF_CHECKS_HARDENED || checks == HF_CHECKS_FULL)
        hf_checks_boot();
    je_malloc_conf = options;
    hf_pace_looks();
    hf_depot_start();
    je_malloc_message = hf_say_nothing;
    jemalloc_constructor();
    hf_ground_write_tables();
    return malloc_initialized();
}

void hf_heap_slow_entry(bool slow)
{
    struct hf_call call;
    __atomic_add_fetch(&hf_put_off_slow, slow ? 1 : -1, __ATOMIC_SEQ_CST);
    /* Also if another thread has taken the request, which it may not have carried out yet. */
    if (hf_enter_patiently(&call)) {
        hf_slow_all(tsd_fetch());
        hf_leave(&call);
    }
    hf_catch_up();
}

void hf_heap_catch_up_entry(void)
{
    hf_catch_up();
}

/* The caches of threads that the child does not have stay as they are; so do those of threads that
 * ended during the fork. */
void hf_heap_reset_in_child_entry(void)
{
    tsd_t *before = hf_thread_slot, *own = before;
    if (own == &tsd_tls || own == &hf_thread_ended || own == &hf_thread_emergency)
        own = NULL;
    if (hf_thread_no_key)
        hf_left_reset((struct hf_thread_data *)own);
    if (hf_put_off_threads != NULL) /* a write copies a page */
        hf_put_off_threads = NULL;
    hf_ground_reset();
    /* jemalloc wants data, for which there may be no memory. */
    bool none = own == NULL && before != &hf_thread_emergency && hf_thread_create() == NULL;
    if (none)
        hf_thread_use_emergency();
    jemalloc_postfork_child();
    hf_kept_reset(tsd_fetch());
    if (none)
        hf_thread_slot = before;
}
