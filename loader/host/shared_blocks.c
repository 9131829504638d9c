/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of shared blocks: chains of entries, by a hash of the address. An entry counts the
 * holders beyond the first. Entries are added and removed under `lock`, each by one store, so a
 * forked child finds the table consistent. Entries are allocated and freed outside of the lock.
 */
#include "loader/host/shared_blocks.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"

#include <errno.h>
#include <pthread.h>

struct hf_shared_block {
    const void *block;
    size_t more; /* holders beyond the first */
    struct hf_shared_block *next;
};

HF_APART struct hf_shared_block *hf_shared_buckets[HF_SHARED_BUCKETS];
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

/* The link that leads to a block's entry, or the chain's last one. The caller holds the lock. */
static struct hf_shared_block **link_to(const void *block)
{
    struct hf_shared_block **link = &hf_shared_buckets[hf_shared_bucket(block)];
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    return link;
}

int hf_shared_blocks_take(const void *block)
{
    struct hf_shared_block *made = hf_malloc(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    *made = (struct hf_shared_block){.block = block, .more = 1};
    pthread_mutex_lock(&lock);
    struct hf_shared_block **link = link_to(block);
    if (*link != NULL) {
        (*link)->more++;
    } else {
        __atomic_store_n(link, made, __ATOMIC_RELEASE);
        made = NULL;
    }
    pthread_mutex_unlock(&lock);
    hf_free(made);
    return 0;
}

bool hf_shared_blocks_is_listed(const void *block)
{
    pthread_mutex_lock(&lock);
    const bool has = *link_to(block) != NULL;
    pthread_mutex_unlock(&lock);
    return has;
}

bool hf_shared_blocks_drop_listed(const void *block)
{
    struct hf_shared_block *removed = NULL;
    pthread_mutex_lock(&lock);
    struct hf_shared_block **link = link_to(block), *found = *link;
    if (found != NULL && --found->more == 0) {
        removed = found;
        __atomic_store_n(link, found->next, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    hf_free(removed);
    return found != NULL;
}
