/*
 * The double of CUDA, from inside: what the files of its two libraries share. It stands in for the
 * driver and the runtime where a test has no device, and is stricter than they are.
 *
 * - A device's addresses are reserved with PROT_NONE: a touch by the host is a SIGSEGV. Its memory
 *   is mapped elsewhere, where copies, and the kernels of control.h, reach it.
 * - Work is queued, and runs only with the clock (control.h) or when somebody waits. Work that
 * finds its memory freed, unmapped or unlocked by then is a fault.
 * - Nothing is reused while it could hide a mistake: freed addresses are not handed out again.
 * - It takes no memory from malloc(): all its tables are static, or come from mmap(2).
 *
 * One lock guards everything, and is held for the whole of each call: recursive, because kernels
 * may call CUDA. Errors are the numbers that both libraries share.
 *
 * double_state.c     the lock, failures, counters
 * double_devices.c   devices and contexts
 * double_memory.c    addresses and what is mapped there
 * double_streams.c   streams, events, work and its order
 * double_capture.c   captures, and what they forbid
 * double_copies.c    copies and fills
 * double_driver*.c   what libcuda.so.1 exports
 * double_runtime*.c  what libcudart.so.13 exports
 */
#ifndef HOMEFREE_TESTS_CUDA_DOUBLE_DOUBLE_H
#define HOMEFREE_TESTS_CUDA_DOUBLE_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    UNLOADING = 4,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

enum { DEVICES_MAX = 8, CONTEXTS_MAX = 32, GRANULE = 2 << 20 };

/* ---- double_state.c ---- */

/* Begins a call: takes the lock, counts, and returns the error that it is to fail with, or 0.
 * double_leave() ends it and returns that error. `alias`: the function of the runtime's that it is
 * counted as too; may be NULL. */
int double_enter(const char *function, const char *alias);
int double_leave(int error);

#define DOUBLE_CALL(function, alias, ...)           \
    do {                                            \
        int error_ = double_enter(function, alias); \
        if (error_ == 0)                            \
            error_ = (__VA_ARGS__);                 \
        return double_leave(error_);                \
    } while (0)

/* The lock alone, for control.h. */
void double_lock(void);
void double_unlock(void);

/* Ends the process: the double's own tables are full, or are wrong. */
void double_broken(const char *what) __attribute__((noreturn));
/* Counts a fault and tells it on stderr. */
void double_fault(const char *what, uintptr_t at, size_t size);

extern unsigned long long double_sequence; /* of work; grows */
extern int double_runtime_version;

/* ---- double_devices.c ---- */

struct double_work;
struct double_stream {
    struct double_context *context; /* NULL: the entry is free */
    bool is_blocking;               /* it synchronises with the default stream */
    struct double_work *first, *last;
    int capture;           /* 0 none, 1 active, 2 invalidated */
    int capture_mode;      /* CUstreamCaptureMode */
    const void *capturing; /* the thread that does */
    size_t captured;       /* pieces of work */
};

struct double_context {
    int device;
    bool is_live, is_primary;
    unsigned retained;
    int lost; /* the error that every call returns since a fault */
    struct double_stream legacy, per_thread;
};

struct double_device {
    size_t memory, used;
    bool cannot_map;
    unsigned contexts_created;
    struct double_context primary;
};

extern int double_device_count;
extern struct double_device double_device[DEVICES_MAX];
extern bool double_is_initialised; /* cuInit() */

void double_read_environment(void);
/* Creates the primary context unless it is there. */
int double_primary(int device, struct double_context **out);
/* Ends a context: its streams, events, memory and mappings are gone. */
void double_end_context(struct double_context *context);
bool double_is_context(const struct double_context *context);
/* The calling thread's context. */
int double_current(struct double_context **out); /* INVALID_CONTEXT if there is none */
struct double_context *double_top(void);         /* NULL if there is none */
int double_push(struct double_context *context);
int double_pop(struct double_context **out);
int double_set_top(struct double_context *context);
struct double_context *double_new_context(int device);

/* ---- double_memory.c ---- */

enum double_kind { FREE_RANGE, BLOCK, POOLED, MANAGED, MAPPED, HOST_BLOCK, REGISTERED };

struct double_physical {
    char *bytes; /* where the double reaches it; NULL: the entry is free */
    size_t size;
    int device;
    unsigned handles, mappings;
};

/* What is at some addresses. */
struct double_range {
    uintptr_t start;
    size_t size;
    enum double_kind kind;
    int device;
    unsigned flags;                   /* of cudaHostRegister() and its kind */
    bool is_accessible;               /* a mapping: cuMemSetAccess() was called */
    bool is_freed;                    /* by cudaFreeAsync() whose turn has not come */
    size_t offset;                    /* in the physical memory */
    struct double_physical *physical; /* NULL for the host's memory */
};

int double_reserve(uintptr_t *at, size_t size, size_t alignment);
int double_unreserve(uintptr_t at, size_t size);
int double_create(struct double_physical **out, int device, size_t size);
int double_release(struct double_physical *physical);
struct double_physical *double_physical_of(unsigned long long handle);
int double_map(uintptr_t at, size_t size, size_t offset, struct double_physical *physical);
int double_unmap(uintptr_t at, size_t size);
int double_set_access(uintptr_t at, size_t size, int device);
int double_allocate(uintptr_t *at, size_t size, int device, enum double_kind kind);
int double_free(uintptr_t at); /* BLOCK, POOLED and MANAGED */
int double_free_pooled(uintptr_t at);
int double_host_allocate(void **out, size_t size, unsigned flags);
int double_host_free(void *at);
int double_register(void *at, size_t size, unsigned flags);
int double_unregister(void *at);
/* The range that holds an address, or NULL. */
struct double_range *double_range_of(uintptr_t at);
/* Whether an address is a device's, or was. */
bool double_is_devices(uintptr_t at);
void double_free_all_of(int device);

/* ---- double_streams.c ---- */

struct double_event {
    struct double_context *context; /* NULL: the entry is free */
    bool is_lost;                   /* its context ended */
    bool is_captured;
    unsigned long long recorded, completed; /* sequences */
};

struct double_copy {
    uintptr_t to, from;
    size_t size;
    int value;                /* < 0: a copy; otherwise a fill */
    int to_where, from_where; /* double_copies.c's, when it was enqueued */
};

int double_stream_of(void *handle, struct double_stream **out);
int double_new_stream(struct double_context *context, bool is_blocking, struct double_stream **out);
int double_destroy_stream(void *handle);
int double_new_event(struct double_event **out);
int double_event_of(void *handle, struct double_event **out);
int double_destroy_event(void *handle);
int double_record(void *event, void *stream);
int double_event_query(void *event);
int double_event_wait(void *event);
int double_stream_wait(void *stream, void *event);
int double_stream_query(void *stream);
int double_enqueue_call(struct double_stream *stream, void (*call)(void *), void *argument);
int double_enqueue_copy(struct double_stream *stream, const struct double_copy *copy);
int double_enqueue_free(struct double_stream *stream, uintptr_t at);
void double_finish_stream(struct double_stream *stream);
void double_finish_context(struct double_context *context);
struct double_live;
void double_count_streams(struct double_live *live);
int double_synchronize(void); /* the current context */
void double_end_streams(struct double_context *context);
/* Calls visit() with each stream of the context, its default ones included, or of all (NULL). */
void double_each_stream(struct double_context *context,
                        void (*visit)(struct double_stream *, void *), void *argument);

/* ---- double_capture.c ---- */

extern size_t double_graphs; /* live */
int double_destroy_graph(void *graph);
int double_begin_capture(void *stream, int mode);
int double_end_capture(void *stream, void **graph);
int double_is_capturing(void *stream, int *status);
int double_exchange_mode(int *mode);
/* An error if a call that may synchronise is not allowed now; then captures are invalidated. */
int double_unsafe(void);
/* The same before something waits for a context. */
int double_waits(struct double_context *context);
/* The same before work in, or a question to, the stream. */
int double_uses(struct double_stream *stream);

/* ---- double_copies.c ---- */

int double_copy_now(const struct double_copy *copy, void *stream);
int double_copy_async(const struct double_copy *copy, void *stream);
/* Carries it out. */
int double_run_copy(const struct double_copy *copy);

#pragma GCC visibility pop
#endif
