/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks and results of an executor's queue (work.c), in lists, and tasks by their numbers. The
 * queue's lock guards all of it, and whoever calls has it.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_WORK_ITEMS_H
#define HOMEFREE_PYTHON_NATIVE_WORK_ITEMS_H

#include "python/native/crossing.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct item {
    struct item *next, *before;
    struct item *same; /* in the same bucket of the index */
    unsigned long long number;
    int outcome;
    struct homefree_message *message;
    char name[]; /* of a task, for hf_session_name() */
};

struct list {
    struct item *first, *last;
    pthread_cond_t arrived;
    unsigned waiting;
};

/* Finds a task by its number. Numbers follow each other, so the buckets are filled evenly. */
struct index {
    struct item **buckets;  /* `few`, or a block */
    size_t capacity, count; /* capacity: a power of two */
    struct item *few[64];
};

void homefree_list_open(struct list *list);
void homefree_list_add(struct list *list, struct item *item);
/* All items, which are in no list any more. */
struct item *homefree_list_all(struct list *list);
/* Waits for one more. until: NULL for as long as it takes. False: it is over. */
bool homefree_list_wait(struct list *list, pthread_mutex_t *lock, const struct timespec *until);
/* Those that are in no list. No lock. */
void homefree_items_drop(struct item *items);

void homefree_index_open(struct index *index);
void homefree_index_close(struct index *index);
/* Into the index and the list, and out of both: NULL if there is none with that number. */
void homefree_index_add(struct index *index, struct list *tasks, struct item *item);
struct item *homefree_index_take(struct index *index, struct list *tasks,
                                 unsigned long long number);
bool homefree_index_has(const struct index *index, unsigned long long number);
struct item *homefree_index_clear(struct index *index, struct list *tasks);

#endif
