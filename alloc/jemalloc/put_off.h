/*
 * Work deferred while the process forks (fork_gate.h): freed blocks, linked through themselves;
 * ended threads; requests to slow all threads down. Part of fast_path.h. Owns the lists. Entries
 * are added without a lock, and processed inside the gate by the thread that opens it or finds it
 * open again.
 */
struct hf_put_off_block {
    struct hf_put_off_block *next;
    const void *caller; /* only in blocks with room for it */
};
static struct hf_put_off_block *hf_put_off_blocks;
static struct hf_thread_data *hf_put_off_threads;
static int hf_put_off_slow;
/* Taken inside the gate, before jemalloc's locks. A thread that finds no request has thereby waited
 * for the one that carries it out. */
static pthread_mutex_t HF_FORK_LOCK hf_slow_lock = PTHREAD_MUTEX_INITIALIZER;

/* Called inside the gate, so another thread's fork may be waiting for it to return. */
static void hf_free_put_off(struct hf_put_off_block *block)
{
    while (block != NULL) {
        struct hf_put_off_block *next = block->next;
        if (hf_is_watched()) {
            bool has_caller = hf_block_check(block, NULL, HF_CORRUPT_IN_FREE) >= sizeof *block;
            hf_watch_freed(block, has_caller ? block->caller : NULL);
        }
        free_default(block);
        block = next;
    }
}

static void hf_slow_all(tsd_t *tsd)
{
    pthread_mutex_lock(&hf_slow_lock);
    int slow = __atomic_exchange_n(&hf_put_off_slow, 0, __ATOMIC_SEQ_CST);
    for (; slow > 0; slow--)
        tsd_global_slow_inc(tsd_tsdn(tsd));
    for (; slow < 0; slow++)
        tsd_global_slow_dec(tsd_tsdn(tsd));
    pthread_mutex_unlock(&hf_slow_lock);
}

/* Processes the lists. A thread that adds an entry after the gate opened looks again, and processes
 * it; the thread that opens the gate processes earlier ones. */
static void hf_catch_up(void)
{
    struct hf_call call;
    while (__atomic_load_n(&hf_put_off_blocks, __ATOMIC_SEQ_CST) != NULL ||
           __atomic_load_n(&hf_put_off_threads, __ATOMIC_SEQ_CST) != NULL ||
           __atomic_load_n(&hf_put_off_slow, __ATOMIC_SEQ_CST) != 0) {
        if (!hf_enter(&call))
            return;
        tsd_t *tsd = tsd_fetch();
        hf_free_put_off(__atomic_exchange_n(&hf_put_off_blocks, NULL, __ATOMIC_SEQ_CST));
        struct hf_thread_data *thread =
            __atomic_exchange_n(&hf_put_off_threads, NULL, __ATOMIC_SEQ_CST);
        while (thread != NULL) {
            struct hf_thread_data *next = thread->put_off;
            hf_thread_release(&thread->tsd);
            thread = next;
        }
        hf_slow_all(tsd);
        hf_leave(&call);
    }
}

static void hf_put_off_thread(tsd_t *tsd)
{
    struct hf_thread_data *thread = (struct hf_thread_data *)tsd;
    (void)pthread_setspecific(tsd_tsd, NULL);
    thread->put_off = __atomic_load_n(&hf_put_off_threads, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&hf_put_off_threads, &thread->put_off, thread, true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    if (!hf_gate_is_closed())
        hf_catch_up();
}

static void hf_put_off_free(void *ptr, size_t usable, const void *caller)
{
    struct hf_put_off_block *block = ptr;
    /* With checks:full, a block's guard makes room for it. */
    if (usable >= sizeof *block || hf_checks_full)
        block->caller = caller;
    struct hf_put_off_block *first = __atomic_load_n(&hf_put_off_blocks, __ATOMIC_RELAXED);
    do
        block->next = first;
    while (!__atomic_compare_exchange_n(&hf_put_off_blocks, &first, block, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    if (!hf_gate_is_closed())
        hf_catch_up();
}
