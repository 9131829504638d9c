/*
 * Grounds: free ranges, and large blocks of exactly as many pages as were asked for. See ground.h.
 * Owns nothing.
 *
 * Freed blocks wait for a request of exactly their size, because programs that use such memory ask
 * for the same sizes again and again.
 */
#include "satellites/cuda/ground/ground.h"

/* ---- free ranges; with the ground's lock ---- */

enum { LOOKS = 512 }; /* ranges that are compared */

static bool is_border(const struct hf_holes *holes, uintptr_t at)
{
    const struct hf_ground *ground =
        (const void *)((const char *)holes - offsetof(struct hf_ground, free));
    return at % HF_GROUND_GRANULE == 0 && hf_ground_entry_in(ground->area, (void *)at)->is_border;
}

void hf_ground_ranges_start(struct hf_ground *ground)
{
    ground->free.is_border = is_border;
}

void hf_ground_range_give(struct hf_ground *ground, uintptr_t at, size_t size)
{
    if (size != 0)
        hf_holes_give(&ground->free, at, size);
}

/* A new range, of which `taken` bytes are not free. 0 if there is none. */
static uintptr_t grow(struct hf_ground *ground, size_t size, size_t taken)
{
    size = (size + HF_GROUND_GRANULE - 1) & -HF_GROUND_GRANULE;
    void *at = ground->grow(ground->space, size);
    if (at != NULL) {
        hf_ground_entry_in(ground->area, at)->is_border = true;
        hf_ground_range_give(ground, (uintptr_t)at + taken, size - taken);
    }
    return (uintptr_t)at;
}

struct fit {
    const struct hf_ground *ground;
    size_t size, alignment;
    size_t lacks, room; /* of the best one yet */
    uintptr_t at;       /* 0: none */
    int looks;
};

/* The smallest one of several that lack as little, at the lowest address. */
static bool compare(void *context, uintptr_t start, size_t room)
{
    struct fit *fit = context;
    const uintptr_t at = (start + fit->alignment - 1) & -fit->alignment;
    if (room - fit->size >= at - start) {
        const size_t lacks =
            fit->ground->lacks(fit->ground->space, (void *)at, fit->size, fit->lacks);
        if (fit->at == 0 || lacks < fit->lacks || (lacks == fit->lacks && room < fit->room)) {
            fit->at = at;
            fit->lacks = lacks;
            fit->room = room;
        }
    }
    return ++fit->looks < LOOKS;
}

uintptr_t hf_ground_range_take(struct hf_ground *ground, size_t size, size_t alignment, bool grows)
{
    struct fit fit = {.ground = ground, .size = size, .alignment = alignment, .lacks = SIZE_MAX};
    hf_holes_each(&ground->free, size, compare, &fit);
    if (fit.at == 0 && fit.looks == LOOKS)
        return hf_holes_take(&ground->free, size, alignment);
    if (fit.at != 0)
        hf_holes_take_at(&ground->free, fit.at, size);
    return fit.at == 0 && grows ? grow(ground, size, size) : fit.at;
}

bool hf_ground_add(struct hf_ground *ground, size_t size)
{
    pthread_mutex_lock(&ground->lock);
    const bool added = grow(ground, size, 0) != 0;
    pthread_mutex_unlock(&ground->lock);
    return added;
}

struct visit {
    void (*visit)(void *context, void *at, size_t size);
    void *context;
};

static bool pass_on(void *context, uintptr_t start, size_t size)
{
    const struct visit *visit = context;
    visit->visit(visit->context, (void *)start, size);
    return true;
}

void hf_ground_each_free(struct hf_ground *ground,
                         void (*visit)(void *context, void *at, size_t size), void *context)
{
    struct visit adapted = {.visit = visit, .context = context};
    pthread_mutex_lock(&ground->lock);
    hf_holes_each(&ground->free, 0, pass_on, &adapted);
    pthread_mutex_unlock(&ground->lock);
}

/* ---- blocks; with the ground's lock ---- */

static struct hf_ground_large **freed_list(struct hf_ground *ground, size_t size)
{
    const size_t pages = size >> HF_LG_PAGE;
    return &ground->freed[(pages ^ (pages >> 6) ^ (pages >> 12)) % HF_GROUND_FREED];
}

static uintptr_t address_of(const struct hf_ground_large *large)
{
    return large->word & ~HF_GROUND_STATE;
}

static void set_state(struct hf_ground_large *large, enum hf_ground_state state)
{
    __atomic_store_n(&large->word, address_of(large) | (uintptr_t)state, __ATOMIC_RELEASE);
}

static void *reuse(struct hf_ground *ground, size_t size, size_t alignment)
{
    for (struct hf_ground_large **link = freed_list(ground, size), *large; (large = *link) != NULL;
         link = &large->next) {
        if (large->size != size || (address_of(large) & (alignment - 1)) != 0)
            continue;
        *link = large->next;
        ground->freed_count--;
        set_state(large, HF_LIVE);
        return (void *)address_of(large);
    }
    return NULL;
}

static struct hf_ground_large *take_record(struct hf_ground *ground)
{
    struct hf_ground_large *large = ground->idle_large;
    if (large != NULL) {
        ground->idle_large = large->next;
        return large;
    }
    large = hf_ground_metadata(sizeof *large);
    if (large != NULL)
        large->ground = ground;
    return large;
}

static void give_record(struct hf_ground *ground, struct hf_ground_large *large)
{
    large->next = ground->idle_large;
    ground->idle_large = large;
}

static void *make(struct hf_ground *ground, size_t size, size_t alignment)
{
    struct hf_ground_large *large = take_record(ground);
    if (large == NULL)
        return NULL;
    const uintptr_t at = hf_ground_range_take(ground, size, alignment, false);
    if (at == 0) {
        give_record(ground, large);
        return NULL;
    }
    large->size = size;
    __atomic_store_n(&large->word, at | HF_LIVE, __ATOMIC_RELEASE);
    __atomic_store_n(&hf_ground_entry_in(ground->area, (void *)at)->large, large, __ATOMIC_RELEASE);
    return (void *)at;
}

static void end(struct hf_ground *ground, struct hf_ground_large *large)
{
    const uintptr_t at = address_of(large);
    set_state(large, HF_FREE);
    __atomic_store_n(&hf_ground_entry_in(ground->area, (void *)at)->large, NULL, __ATOMIC_RELEASE);
    hf_ground_range_give(ground, at, large->size);
    give_record(ground, large);
}

void hf_ground_freed_empty(struct hf_ground *ground)
{
    for (size_t i = 0; i < HF_GROUND_FREED; i++)
        for (struct hf_ground_large *large; (large = ground->freed[i]) != NULL;) {
            ground->freed[i] = large->next;
            end(ground, large);
        }
    ground->freed_count = 0;
}

/* ---- large blocks ---- */

void *hf_ground_take_pages(struct hf_ground *ground, size_t size, size_t alignment)
{
    const size_t page = (size_t)1 << HF_LG_PAGE;
    alignment = alignment < page ? page : alignment;
    pthread_mutex_lock(&ground->lock);
    void *at = reuse(ground, size, alignment);
    if (at == NULL)
        at = make(ground, size, alignment);
    pthread_mutex_unlock(&ground->lock);
    return at;
}

void hf_ground_give_pages(struct hf_ground *ground, void *at, bool keep)
{
    struct hf_ground_large *large = hf_ground_large_of(hf_ground_entry_in(ground->area, at));
    pthread_mutex_lock(&ground->lock);
    if (keep && ground->freed_count < HF_GROUND_FREED_MAX) {
        struct hf_ground_large **list = freed_list(ground, large->size);
        set_state(large, HF_STACKED);
        large->next = *list;
        *list = large;
        ground->freed_count++;
    } else {
        end(ground, large);
    }
    pthread_mutex_unlock(&ground->lock);
}
