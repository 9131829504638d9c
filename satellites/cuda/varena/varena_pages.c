/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual arenas: free ranges, and large blocks of exactly as many pages as were asked for. See
 * varena.h. Owns nothing.
 *
 * Freed blocks wait for a request of exactly their size, because programs that use such memory ask
 * for the same sizes again and again.
 */
#include "satellites/cuda/varena/varena.h"

/* ---- free ranges; with the arena's lock ---- */

enum { LOOKS = 512 }; /* ranges that are compared */

static bool is_border(const struct hf_holes *holes, uintptr_t at)
{
    const struct hf_varena *varena =
        (const void *)((const char *)holes - offsetof(struct hf_varena, free));
    return at % HF_VARENA_GRANULE == 0 && hf_varena_entry_in(varena->area, (void *)at)->is_border;
}

void hf_varena_ranges_start(struct hf_varena *varena)
{
    varena->free.is_border = is_border;
}

void hf_varena_range_give(struct hf_varena *varena, uintptr_t at, size_t size)
{
    if (size != 0)
        hf_holes_give(&varena->free, at, size);
}

/* A new range, of which `taken` bytes are not free. 0 if there is none. */
static uintptr_t grow(struct hf_varena *varena, size_t size, size_t taken)
{
    size = (size + HF_VARENA_GRANULE - 1) & -HF_VARENA_GRANULE;
    void *at = varena->grow(varena->space, size);
    if (at != NULL) {
        hf_varena_entry_in(varena->area, at)->is_border = true;
        hf_varena_range_give(varena, (uintptr_t)at + taken, size - taken);
    }
    return (uintptr_t)at;
}

struct fit {
    const struct hf_varena *varena;
    size_t size, alignment;
    size_t lacks, capacity; /* of the best one yet */
    uintptr_t at;           /* 0: none */
    int looks;
};

/* The smallest one of several that lack as little, at the lowest address. */
static bool compare(void *context, uintptr_t start, size_t capacity)
{
    struct fit *fit = context;
    const uintptr_t at = (start + fit->alignment - 1) & -fit->alignment;
    if (capacity - fit->size >= at - start) {
        const size_t lacks =
            fit->varena->lacks(fit->varena->space, (void *)at, fit->size, fit->lacks);
        if (fit->at == 0 || lacks < fit->lacks ||
            (lacks == fit->lacks && capacity < fit->capacity)) {
            fit->at = at;
            fit->lacks = lacks;
            fit->capacity = capacity;
        }
    }
    return ++fit->looks < LOOKS;
}

uintptr_t hf_varena_range_take(struct hf_varena *varena, size_t size, size_t alignment, bool grows)
{
    struct fit fit = {.varena = varena, .size = size, .alignment = alignment, .lacks = SIZE_MAX};
    hf_holes_each(&varena->free, size, compare, &fit);
    if (fit.at == 0 && fit.looks == LOOKS)
        return hf_holes_take(&varena->free, size, alignment);
    if (fit.at != 0)
        hf_holes_take_at(&varena->free, fit.at, size);
    return fit.at == 0 && grows ? grow(varena, size, size) : fit.at;
}

bool hf_varena_add(struct hf_varena *varena, size_t size)
{
    pthread_mutex_lock(&varena->lock);
    const bool added = grow(varena, size, 0) != 0;
    pthread_mutex_unlock(&varena->lock);
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

void hf_varena_each_free(struct hf_varena *varena,
                         void (*visit)(void *context, void *at, size_t size), void *context)
{
    struct visit adapted = {.visit = visit, .context = context};
    pthread_mutex_lock(&varena->lock);
    hf_holes_each(&varena->free, 0, pass_on, &adapted);
    pthread_mutex_unlock(&varena->lock);
}

/* ---- blocks; with the arena's lock ---- */

static struct hf_varena_large **freed_list(struct hf_varena *varena, size_t size)
{
    const size_t pages = size >> HF_LG_PAGE;
    return &varena->freed[(pages ^ (pages >> 6) ^ (pages >> 12)) % HF_VARENA_FREED];
}

static uintptr_t address_of(const struct hf_varena_large *large)
{
    return large->word & ~HF_VARENA_STATE;
}

static void set_state(struct hf_varena_large *large, enum hf_varena_state state)
{
    __atomic_store_n(&large->word, address_of(large) | (uintptr_t)state, __ATOMIC_RELEASE);
}

static void *reuse(struct hf_varena *varena, size_t size, size_t alignment)
{
    for (struct hf_varena_large **link = freed_list(varena, size), *large; (large = *link) != NULL;
         link = &large->next) {
        if (large->size != size || (address_of(large) & (alignment - 1)) != 0)
            continue;
        *link = large->next;
        varena->freed_count--;
        set_state(large, HF_LIVE);
        return (void *)address_of(large);
    }
    return NULL;
}

static struct hf_varena_large *take_record(struct hf_varena *varena)
{
    struct hf_varena_large *large = varena->idle_large;
    if (large != NULL) {
        varena->idle_large = large->next;
        return large;
    }
    large = hf_varena_metadata(sizeof *large);
    if (large != NULL)
        large->varena = varena;
    return large;
}

static void give_record(struct hf_varena *varena, struct hf_varena_large *large)
{
    large->next = varena->idle_large;
    varena->idle_large = large;
}

static void *make(struct hf_varena *varena, size_t size, size_t alignment)
{
    struct hf_varena_large *large = take_record(varena);
    if (large == NULL)
        return NULL;
    const uintptr_t at = hf_varena_range_take(varena, size, alignment, false);
    if (at == 0) {
        give_record(varena, large);
        return NULL;
    }
    large->size = size;
    __atomic_store_n(&large->word, at | HF_LIVE, __ATOMIC_RELEASE);
    __atomic_store_n(&hf_varena_entry_in(varena->area, (void *)at)->large, large, __ATOMIC_RELEASE);
    return (void *)at;
}

static void end(struct hf_varena *varena, struct hf_varena_large *large)
{
    const uintptr_t at = address_of(large);
    set_state(large, HF_FREE);
    __atomic_store_n(&hf_varena_entry_in(varena->area, (void *)at)->large, NULL, __ATOMIC_RELEASE);
    hf_varena_range_give(varena, at, large->size);
    give_record(varena, large);
}

void hf_varena_freed_empty(struct hf_varena *varena)
{
    for (size_t i = 0; i < HF_VARENA_FREED; i++)
        for (struct hf_varena_large *large; (large = varena->freed[i]) != NULL;) {
            varena->freed[i] = large->next;
            end(varena, large);
        }
    varena->freed_count = 0;
}

/* ---- large blocks ---- */

void *hf_varena_take_pages(struct hf_varena *varena, size_t size, size_t alignment)
{
    const size_t page = (size_t)1 << HF_LG_PAGE;
    alignment = alignment < page ? page : alignment;
    pthread_mutex_lock(&varena->lock);
    void *at = reuse(varena, size, alignment);
    if (at == NULL)
        at = make(varena, size, alignment);
    pthread_mutex_unlock(&varena->lock);
    return at;
}

void hf_varena_give_pages(struct hf_varena *varena, void *at, bool keep)
{
    struct hf_varena_large *large = hf_varena_large_of(hf_varena_entry_in(varena->area, at));
    pthread_mutex_lock(&varena->lock);
    if (keep && varena->freed_count < HF_VARENA_FREED_MAX) {
        struct hf_varena_large **list = freed_list(varena, large->size);
        set_state(large, HF_STACKED);
        large->next = *list;
        *list = large;
        varena->freed_count++;
    } else {
        end(varena, large);
    }
    pthread_mutex_unlock(&varena->lock);
}
