/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the lock of all watches; looks entries up and stores names. See watch_table.h.
 */
#include "alloc/trace/watch_table.h"

#include "alloc/base/fork_lock.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

void hf_watch_lock(void)
{
    pthread_mutex_lock(&lock);
}

void hf_watch_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void hf_watch_name(struct hf_watch *watch, struct hf_watch_side *side, const char *name)
{
    size_t size = strlen(name) + 1;
    if (size > HF_WATCH_NAMES - watch->names_used) {
        watch->dropped++;
        return;
    }
    memcpy(watch->names + watch->names_used, name, size);
    side->name = (uint32_t)watch->names_used;
    watch->names_used += size;
}

struct hf_watch_entry *hf_watch_entry_at(struct hf_watch *watch, uintptr_t address)
{
    size_t at = hf_watch_hash(address, watch->slots);
    while (watch->blocks[at].address != 0 && watch->blocks[at].address != address)
        at = (at + 1) & (watch->slots - 1);
    return &watch->blocks[at];
}

struct hf_watch_entry *hf_watch_find(struct hf_watch *watch, uintptr_t address)
{
    struct hf_watch_entry *entry = hf_watch_entry_at(watch, address);
    return entry->address != 0 ? entry : NULL;
}
