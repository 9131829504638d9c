/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See work_items.h. Owns nothing.
 */
#include "python/native/work_items.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

/* ---- lists ---- */

void homefree_list_open(struct list *list)
{
    pthread_condattr_t attributes;
    list->first = list->last = NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&list->arrived, &attributes);
    pthread_condattr_destroy(&attributes);
    list->waiting = 0;
}

void homefree_list_add(struct list *list, struct item *item)
{
    item->next = NULL;
    item->before = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = item;
    list->last = item;
    if (list->waiting != 0)
        pthread_cond_signal(&list->arrived);
}

struct item *homefree_list_all(struct list *list)
{
    struct item *items = list->first;
    list->first = list->last = NULL;
    return items;
}

static void unlink_item(struct list *list, struct item *item)
{
    *(item->before != NULL ? &item->before->next : &list->first) = item->next;
    *(item->next != NULL ? &item->next->before : &list->last) = item->before;
    item->next = item->before = NULL;
}

bool homefree_list_wait(struct list *list, pthread_mutex_t *lock, const struct timespec *until)
{
    list->waiting++;
    const int error = until != NULL ? pthread_cond_timedwait(&list->arrived, lock, until)
                                    : pthread_cond_wait(&list->arrived, lock);
    list->waiting--;
    return error != ETIMEDOUT;
}

void homefree_items_drop(struct item *items)
{
    while (items != NULL) {
        struct item *next = items->next;
        homefree_message_drop(items->message);
        hf_free(items);
        items = next;
    }
}

/* ---- the index ---- */

void homefree_index_open(struct index *index)
{
    index->buckets = index->few;
    index->capacity = sizeof index->few / sizeof index->few[0];
}

void homefree_index_close(struct index *index)
{
    if (index->buckets != index->few)
        hf_free(index->buckets);
}

/* Links the tasks of a list to larger buckets. Without memory for them, chains are longer. */
static void index_grow(struct index *index, const struct list *tasks)
{
    struct item **buckets = hf_calloc(index->capacity * 4, sizeof *buckets);
    if (buckets == NULL)
        return;
    homefree_index_close(index);
    index->buckets = buckets;
    index->capacity *= 4;
    for (struct item *item = tasks->first; item != NULL; item = item->next) {
        struct item **bucket = &buckets[item->number & (index->capacity - 1)];
        item->same = *bucket;
        *bucket = item;
    }
}

void homefree_index_add(struct index *index, struct list *tasks, struct item *item)
{
    if (index->count++ >= index->capacity)
        index_grow(index, tasks);
    struct item **link = &index->buckets[item->number & (index->capacity - 1)];
    item->same = *link;
    *link = item;
    homefree_list_add(tasks, item);
}

/* The link to a task, or to nothing. */
static struct item **find(const struct index *index, unsigned long long number)
{
    struct item **link = &index->buckets[number & (index->capacity - 1)];
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->same;
    return link;
}

bool homefree_index_has(const struct index *index, unsigned long long number)
{
    return *find(index, number) != NULL;
}

struct item *homefree_index_take(struct index *index, struct list *tasks, unsigned long long number)
{
    struct item **link = find(index, number), *item = *link;
    if (item == NULL)
        return NULL;
    *link = item->same;
    index->count--;
    unlink_item(tasks, item);
    return item;
}

struct item *homefree_index_clear(struct index *index, struct list *tasks)
{
    memset(index->buckets, 0, index->capacity * sizeof(struct item *));
    index->count = 0;
    return homefree_list_all(tasks);
}
