/*
 * Thread data without a destructor, for processes that have no thread-specific key left (POSIX
 * promises 128, glibc has 1024). Owns the list of all threads' data, which needs no lock. Part of
 * fast_path.h; called inside the gate.
 *
 * There a thread's end goes unnoticed. So each thread's data is entered in a list, and a thread
 * that needs data takes over the data of a thread that no longer exists, with the blocks in its
 * cache and its arena. The number of threads alive at the same time bounds the memory.
 *
 * Not __cxa_thread_atexit_impl(): it takes the dynamic linker's lock, so a thread that a library's
 * constructor starts and waits for could not allocate.
 */

/* How many entries a new thread examines: each costs a system call. */
#define HF_LEFT_LOOKS 16

static struct hf_thread_data *hf_left_list;   /* append-only */
static struct hf_thread_data *hf_left_cursor; /* where the next search begins */
static int hf_left_process;                   /* differs in a child of vfork(2) or clone(2) */

static int hf_left_self(void)
{
    return hf_left_process == (int)getpid() ? (int)syscall(SYS_gettid) : 0;
}

/* Whether the thread has ended. An entry with the caller's own id is a dead thread's, whose id was
 * reused: the calling thread has no data. */
static bool hf_left_is_over(int thread, int self)
{
    if (thread == 0 || thread == self)
        return thread != 0;
    return syscall(SYS_tgkill, hf_left_process, thread, 0) != 0 && get_errno() == ESRCH;
}

/* Takes over a dead thread's data; NULL if none is found. */
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

/* In a forked child, where only this thread exists and jemalloc has forgotten the others' data. */
static void hf_left_reset(struct hf_thread_data *own)
{
    hf_left_process = (int)getpid();
    hf_left_list = hf_left_cursor = NULL;
    if (own != NULL)
        hf_left_enter(own);
}
