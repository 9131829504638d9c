/*
 * Thread data without a destructor, for processes that have no thread-specific key left (POSIX
 * promises 128, glibc has 1024). Owns the list of all threads' data. Part of fast_path.h.
 *
 * Nobody hears of a thread's end then. So each thread's data is entered in a list, and the next
 * thread that needs data takes over what a thread left that is no longer there: with the blocks in
 * its cache, and its arena. Memory is bounded by the number of threads that live at the same time.
 *
 * Not __cxa_thread_atexit_impl(): it takes the dynamic linker's lock, so a thread that a library's
 * constructor starts and waits for could not allocate.
 */

/* How many entries a new thread looks at: each costs a system call. */
#define HF_LEFT_LOOKS 16

static struct hf_thread_data *hf_left_list;   /* entries are added, and never removed */
static struct hf_thread_data *hf_left_cursor; /* where the next thread begins to look */
static int hf_left_process; /* a child that vfork(2) or clone(2) made has another number */

static int hf_left_self(void)
{
    return hf_left_process == (int)getpid() ? (int)syscall(SYS_gettid) : 0;
}

/* A number that is the calling thread's own was a dead thread's before: this one has no data. */
static bool hf_left_is_over(int thread, int self)
{
    if (thread == 0 || thread == self)
        return thread != 0;
    return syscall(SYS_tgkill, hf_left_process, thread, 0) != 0 && get_errno() == ESRCH;
}

/* Data that a dead thread left, or NULL. */
static tsd_t *hf_left_take(void)
{
    const int self = hf_left_self();
    const int saved_errno = get_errno();
    struct hf_thread_data *data = __atomic_load_n(&hf_left_cursor, __ATOMIC_ACQUIRE);
    tsd_t *taken = NULL;
    for (int i = 0; i < HF_LEFT_LOOKS && self != 0 && taken == NULL; i++) {
        if (data == NULL)
            data = __atomic_load_n(&hf_left_list, __ATOMIC_ACQUIRE);
        if (data == NULL)
            break;
        int thread = __atomic_load_n(&data->thread, __ATOMIC_ACQUIRE);
        if (hf_left_is_over(thread, self) &&
            __atomic_compare_exchange_n(&data->thread, &thread, self, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            taken = &data->tsd;
        data = data->next;
    }
    __atomic_store_n(&hf_left_cursor, data, __ATOMIC_RELEASE);
    set_errno(saved_errno);
    return taken;
}

static void hf_left_enter(struct hf_thread_data *data)
{
    data->thread = hf_left_self();
    data->next = __atomic_load_n(&hf_left_list, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&hf_left_list, &data->next, data, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
        ;
}

/* In a forked child: there is one thread, and jemalloc has forgotten the others' data. */
static void hf_left_reset(struct hf_thread_data *own)
{
    hf_left_process = (int)getpid();
    hf_left_list = hf_left_cursor = NULL;
    if (own != NULL)
        hf_left_enter(own);
}
