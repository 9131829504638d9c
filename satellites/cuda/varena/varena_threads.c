/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads' records, and the memory of books. Owns the list of records that no thread has, and the
 * chunk that books come from; one leaf lock guards both. Any thread, but not in a signal handler.
 */
#include "satellites/cuda/varena/varena_threads.h"

#include "alloc/base/fork_lock.h"

#include <pthread.h>
#include <sys/mman.h>

#define CHUNK  ((size_t)1 << 20)
#define BORDER ((size_t)64 << 10) /* the largest page */
enum { LINE = 64 };

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static char *chunk;
static size_t left; /* bytes of it */
static struct hf_varena_thread *idle;

static pthread_key_t key;
static bool has_key;
static void (*leave_all)(struct hf_varena_thread *thread);

static struct hf_varena_freed nothing; /* the end of an empty stack */
struct hf_varena_stacks hf_varena_no_stacks = {
    .tops = {[0 ... HF_VARENA_CLASSES - 1] = &nothing},
    .lasts = {[0 ... HF_VARENA_CLASSES - 1] = &nothing},
};
#define EMPTY                                                          \
    {                                                                  \
        .spaces = { [0 ... HF_SPACES_MAX - 1] = &hf_varena_no_stacks } \
    }
static struct hf_varena_thread none = EMPTY, ended = EMPTY;
__thread struct hf_varena_thread *hf_varena_here __attribute__((tls_model("initial-exec"))) = &none;

struct hf_fast_spaces hf_fast_spaces = {
    .at = {[0 ... HF_SPACES_MAX - 1] = {.stream = HF_FAST_NONE, .frees = HF_FAST_NONE}},
};

/* ---- memory ---- */

static bool open_chunk(void)
{
    char *at = mmap(NULL, CHUNK + 2 * BORDER, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    if (mprotect(at + BORDER, CHUNK, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(at, CHUNK + 2 * BORDER);
        return false;
    }
    chunk = at + BORDER;
    left = CHUNK;
    return true;
}

void *hf_varena_metadata(size_t size)
{
    void *at = NULL;
    size = (size + LINE - 1) & -(size_t)LINE;
    pthread_mutex_lock(&lock);
    if (size <= left || open_chunk()) {
        left -= size;
        at = chunk + left;
    }
    pthread_mutex_unlock(&lock);
    return at;
}

/* ---- threads ---- */

static void end(void *argument)
{
    struct hf_varena_thread *thread = argument;
    leave_all(thread);
    hf_varena_here = &ended;
    pthread_mutex_lock(&lock);
    thread->next = idle;
    idle = thread;
    pthread_mutex_unlock(&lock);
}

static struct hf_varena_thread *begin(void)
{
    pthread_mutex_lock(&lock);
    struct hf_varena_thread *thread = idle;
    if (thread != NULL)
        idle = thread->next;
    pthread_mutex_unlock(&lock);
    if (thread == NULL) {
        thread = hf_varena_metadata(sizeof *thread);
        for (size_t i = 0; thread != NULL && i < HF_SPACES_MAX; i++)
            thread->spaces[i] = &hf_varena_no_stacks;
    }
    return thread;
}

/* Without a key, nobody would learn that the thread has ended. pthread_setspecific() may call
 * malloc(). */
struct hf_varena_thread *hf_varena_thread(void)
{
    if (HF_LIKELY(hf_varena_here != &none))
        return hf_varena_here != &ended ? hf_varena_here : NULL;
    struct hf_varena_thread *thread = has_key ? begin() : NULL;
    if (thread == NULL)
        return NULL;
    hf_varena_here = thread;
    if (pthread_setspecific(key, thread) != 0) {
        end(thread);
        hf_varena_here = &none;
        return NULL;
    }
    return thread;
}

void hf_varena_threads_start(void (*leave)(struct hf_varena_thread *thread))
{
    leave_all = leave;
    has_key = pthread_key_create(&key, end) == 0;
}
