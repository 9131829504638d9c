/* SPDX-License-Identifier: BSD-2-Clause */
/* See leavings.h. Rows are never removed, so what a row points to is permanent. */
#include "loader/host/leavings.h"

#include "alloc/base/fork_lock.h"

#include <homefree/libc.h>
#include <string.h>

enum { ROWS = 128 };

static struct hf_interpreter_leak rows[ROWS];
static size_t count;
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. NULL: there is no room. */
static struct hf_interpreter_leak *row_of(const char *object, const char *why)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].why == why && strcmp(rows[i].object, object) == 0)
            return &rows[i];
    const char *name = count < ROWS ? hf_strdup(object) : NULL;
    if (name == NULL)
        return NULL;
    rows[count] = (struct hf_interpreter_leak){.size = sizeof rows[0], .object = name, .why = why};
    return &rows[count++];
}

void hf_leavings_add(const char *object, const char *why, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct hf_interpreter_leak *row = row_of(object, why);
    if (row != NULL) {
        row->interpreters++;
        row->bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
}

int hf_leavings_each(hf_interpreter_leak_visitor *visit, void *context)
{
    int result = 0;
    for (size_t i = 0; i < ROWS && result == 0; i++) {
        pthread_mutex_lock(&lock);
        const struct hf_interpreter_leak row = rows[i];
        const bool exists = i < count;
        pthread_mutex_unlock(&lock);
        if (!exists)
            break;
        result = visit(context, &row);
    }
    return result;
}
