/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/interpreters.h - several Python interpreters in one process, on one heap.
 *
 * A *group* is a number of interpreters that the same code and data are loaded into, each with a
 * GIL of its own, so that calls run at the same time. A *session* is the right of one thread to use
 * one interpreter of a group. Each interpreter has a thread of homefree's, its *owner thread*,
 * which makes it, runs what is posted to it, and ends it.
 *
 * These functions do not need Python's headers, and libhomefree does not link Python: it uses the
 * CPython of the process. Which interpreters there can be depends on it:
 *
 *   CPython 3.12 and later         HF_ENGINE_OWN_GIL: subinterpreters (PEP 684). Extension modules
 *                                  must support them; the package `homefree` loads others as
 *                                  private copies
 *   a free-threaded CPython        HF_ENGINE_THREADS: one interpreter, which needs no GIL
 *   an older CPython               none: -ENOTSUP
 *
 * With HF_ENGINE_THREADS all interpreters of all groups are the main one. Calls run at the same
 * time (unless the program or a module has enabled the GIL), and sessions are counted, spread and
 * ended as they are elsewhere, but modules and their globals are shared: what calls change needs a
 * lock, or an object for each interpreter (hf_replica_new()). Further:
 *
 *   - the number of each interpreter is 0. What is posted to it, or held of it, is the main
 *     interpreter's; it never parks a group, and memory outlives its group
 *   - `set_up` runs once for a group, in the __main__ that all share, and `paths` replace the
 *     program's sys.path
 *   - a session uses the thread state that its thread has in the main interpreter; a thread without
 *     one keeps what it is given until it ends. Attaching an attached thread does nothing
 *   - Python's own threads live on when a group has ended, and nothing is unloaded
 *
 * A thread is *attached* to an interpreter while it may use CPython's API there (holds its GIL).
 * The functions of this header may be called by attached and by other threads; whoever has to wait
 * for something detaches meanwhile. PyGILState_Ensure() knows nothing of sessions: on a thread that
 * has a session and is attached to nothing, it attaches to the session's interpreter.
 *
 * In a child of fork(2) the interpreters of the parent are gone: every function that needs one
 * returns -ESHUTDOWN at once.
 *
 * Each of these headers can also be included alone:
 *
 *   homefree/interpreters/value.h    arguments and results of calls, and exceptions
 *   homefree/interpreters/replica.h  objects that each interpreter of a group has one of
 */
#ifndef HOMEFREE_INTERPRETERS_H
#define HOMEFREE_INTERPRETERS_H

#include <homefree/base.h>
#include <homefree/interpreters/memory.h>
#include <homefree/interpreters/replica.h>
#include <homefree/interpreters/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the interpreters of a group run at the same time. */
enum hf_interpreters_engine_kind {
    HF_ENGINE_OWN_GIL = 1, /* subinterpreters, each with a GIL of its own */
    HF_ENGINE_THREADS = 2  /* threads of one interpreter that has no GIL */
};

struct hf_interpreters;
struct hf_session;

/*
 * Tells how interpreters of this process could run at the same time.
 *
 * Parameters:
 *   why   out, size bytes: one sentence that says why they could not; empty if they can; may be
 *         NULL
 *   size  in, bytes: of why
 * Result: an enum hf_interpreters_engine_kind, or a negative errno.
 * Errors:
 *   -ENOENT   the process has no CPython 3.9 or later
 *   -ENOTSUP  its CPython has one GIL for all interpreters; or this installation has no
 *             libhomefree-interpreters.so
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_engine(char *why, size_t size);

/* What hf_interpreters_start() makes. Caller-sized; absent fields mean their defaults. */
struct hf_interpreters_options {
    size_t size;
    unsigned count;           /* interpreters; 0 (the default): one for each processor */
    const char *const *paths; /* sys.path of each; NULL: that of the main interpreter */
    size_t path_count;
    const char *set_up;    /* Python source that each runs first, in its __main__; NULL: none */
    void (*cpython)(void); /* any function of the CPython to use; NULL: found by name */
    bool without_package;  /* true: the package `homefree` is not imported into them */
    bool without_heap;     /* true: CPython keeps the allocators that it has */
    bool name_crashes;     /* true: a crash names the interpreter; see below */
    uint64_t memory_limit; /* bytes that each may have; 0: no limit; see below */
};

/*
 * Makes a group of interpreters.
 *
 * If CPython is not initialised yet, this initialises it, with Py_InitializeEx(0), and leaves the
 * calling thread detached. Each interpreter gets the main interpreter's sys.path, or the one of the
 * options; imports `threading` and, if the package `homefree` is there, what makes extension
 * modules loadable; and runs `set_up`. Interpreters are made one after the other.
 *
 * CPython allocates from the heap afterwards, as after hf_python_install(NULL, NULL), unless the
 * options or HOMEFREE_CONF say otherwise: calls take several times as long without, because CPython
 * then maps and unmaps the stack of each thread state.
 *
 * An interpreter cannot fork; its Python threads must not be daemons.
 *
 * With name_crashes, a process that dies by SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT says in its
 * last line on stderr in which interpreter that was, what ran there, and in which shared object,
 * and then dies as it would have: by the same signal. Until the last such group has ended, these
 * signals lead to a handler of homefree's. A handler that the host had before is called first, and
 * one that does not let the process die (it jumps, or mends the fault) has the last word: nothing
 * is said. A handler that the host installs later replaces homefree's and is left alone; most, such
 * as faulthandler's, call it as the one before. Threads that have attached a session get an
 * alternate signal stack if they have none. In diagnostics mode every group has this.
 *
 * With memory_limit, an interpreter that would have more gets NULL, and Python raises MemoryError
 * there; the others, and the main one, go on. hf_interpreters_memory() says what counts.
 * HF_LIMIT_NONE (homefree/limit.h) counts and refuses nothing. Until the interpreter has run
 * `set_up`, and from when it ends, nothing is refused. Each interpreter with a limit takes one of
 * the 64 limits that a process has.
 *
 * Parameters:
 *   out       out: the group; unchanged on error
 *   options   in: NULL for the defaults
 *   why       out, why_size bytes: on error one sentence that says why, and on an exception its
 *             type and message; empty on success; may be NULL
 *   why_size  in, bytes: of why
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     out is NULL, the size of options is too small, a path is NULL, or there would be
 *               more than 1024 interpreters
 *   -ENOENT     the process has no CPython 3.9 or later
 *   -ENOTSUP    its CPython has one GIL for all interpreters; or this installation has no
 *               libhomefree-interpreters.so; or memory_limit, and CPython's object allocator is
 *               another one, or has hooks (PYTHONMALLOC, -X dev, tracemalloc), so that it is
 *               unknown whose a block is
 *   -EPROTO     Python code raised: of set_up, or of the package
 *   -EIO        CPython could not make an interpreter
 *   -EDEADLK    the calling thread is making or ending an interpreter itself
 *   -ESHUTDOWN  CPython is being finalized
 *   -EAGAIN     there can be no more threads
 *   -EMFILE     there are 64 limits
 *   -ENOSYS     memory_limit, and the interpreters are threads (HF_ENGINE_THREADS)
 *   -ENOMEM     there is no memory, or an interpreter has more than memory_limit before its first
 *               call
 *   others      with memory_limit, as hf_limit_begin()
 * Frees: end the group with hf_interpreters_end(). What the options point to is the caller's.
 * Threads: safe.
 * Fork: safe; in a child it makes a new group.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_start(struct hf_interpreters **out,
                                 const struct hf_interpreters_options *options, char *why,
                                 size_t why_size);

/*
 * Returns how many interpreters a group was made with.
 *
 * Parameters:
 *   group  in: the group, or NULL
 * Result: the number; 0 for NULL.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API unsigned hf_interpreters_count(const struct hf_interpreters *group);

/* What has become of an interpreter. */
enum hf_interpreter_state {
    HF_INTERPRETER_RUNNING = 1, /* sessions may begin */
    HF_INTERPRETER_ENDING = 2,  /* no new sessions; not ended yet */
    HF_INTERPRETER_PARKED = 3,  /* ends when nobody holds anything of it any more */
    HF_INTERPRETER_HUNG = 4,    /* did not end in time, and ends when its code lets it */
    HF_INTERPRETER_ENDED = 5
};

/* One interpreter. Caller-sized. */
struct hf_interpreter_stats {
    size_t size;
    int64_t id;                      /* CPython's number for it; 0 is the main interpreter */
    enum hf_interpreter_state state; /* what has become of it */
    unsigned sessions;               /* that have begun and not ended */
    unsigned waiting;                /* threads that wait until it is free */
    uint64_t calls;                  /* attachments so far, those of calls included */
    uint64_t held;                   /* things of it that others hold (hf_interpreters_hold()) */
    uint64_t posted;                 /* functions that are posted and have not run */
    char runs[128]; /* what one of its sessions runs, say "module:function"; "": nothing known */
};

/*
 * Describes one interpreter of a group.
 *
 * Parameters:
 *   group  in: the group
 *   index  in: from 0 to hf_interpreters_count() - 1
 *   out    out: its size member is set by the caller
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     group or out is NULL, its size is too small, or there is no such interpreter
 *   -ESHUTDOWN  the group belongs to the parent of a fork
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_stats(struct hf_interpreters *group, unsigned index,
                                 struct hf_interpreter_stats *out);

/*
 * Ends a group, also while calls run in it.
 *
 * New sessions get -ESHUTDOWN from now on, and those that wait are woken up. Interpreters end as
 * soon as they have no session. When the time is up, SystemExit is raised in what runs in the
 * others, which get one second to end. What still does not end, because it blocks in C code or
 * because a session is never ended, is left alone (HF_INTERPRETER_HUNG): it ends by itself when its
 * code returns or the session ends. Other groups are unharmed.
 *
 * An interpreter of which others hold something is parked: it ends when the last of that is
 * released. That is not an error.
 *
 * Parameters:
 *   group       in: the group; NULL does nothing
 *   timeout_ms  in, milliseconds: how long to wait for sessions; negative: as long as it takes
 * Result: 0 or a negative errno.
 * Errors:
 *   -ETIMEDOUT  an interpreter has not ended; the group stays valid, and may be ended again
 *   -EBUSY      another thread is ending the group
 *   -EDEADLK    the calling thread has a session of this group, or is an owner thread
 *   -ESHUTDOWN  the group belongs to the parent of a fork
 * Frees: on 0 the group.
 * Threads: safe; no thread may use the group after it was freed.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_end(struct hf_interpreters *group, int timeout_ms);

/*
 * Ends all interpreters of all groups, parked ones too: to be called before Py_FinalizeEx(), which
 * ends the process if interpreters are left.
 *
 * Sessions are waited for as by hf_interpreters_end(). What does not end even then is taken out of
 * CPython's list, and Py_FinalizeEx() leaves it alone: its threads end when they want to run Python
 * again. What others hold of an interpreter stays as
 * it is: its memory may be used, and is never given back (hf_stats(), releases_leaked). The groups
 * still have to be freed by hf_interpreters_end(). The package `homefree` calls this when Python
 * exits.
 *
 * Parameters:
 *   timeout_ms  in, milliseconds: how long to wait for sessions; negative: as long as it takes
 * Result: 0 or a negative errno.
 * Errors:
 *   -ETIMEDOUT  an interpreter has not ended, and never will
 *   -EDEADLK    the calling thread has a session, or is an owner thread
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_finish(int timeout_ms);

/* The interpreters of the process that this header has made. Caller-sized. */
struct hf_interpreters_counts {
    size_t size;
    uint64_t made;    /* so far */
    uint64_t ended;   /* so far */
    unsigned running; /* including those that are ending */
    unsigned parked;
    unsigned hung;
};

/*
 * Counts the interpreters that hf_interpreters_start() has made in this process.
 *
 * Parameters:
 *   out  out: its size member is set by the caller
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  out is NULL, or its size is too small
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe; a child starts at zero.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_totals(struct hf_interpreters_counts *out);

/*
 * Begins a session: the right to use one interpreter of a group.
 *
 * With an index of -1, it is the interpreter with the fewest sessions. Several sessions of one
 * interpreter take turns, as threads do in Python. With a timeout other than 0, this waits until an
 * interpreter (with an index: that one) has no session.
 *
 * Beginning attaches to nothing; see hf_session_attach().
 *
 * Parameters:
 *   out         out: the session; unchanged on error
 *   group       in: the group
 *   index       in: from 0 to hf_interpreters_count() - 1, or -1
 *   timeout_ms  in, milliseconds: how long to wait for a free interpreter; 0: a busy one will do;
 *               negative: as long as it takes
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     out or group is NULL, or there is no such interpreter
 *   -ETIMEDOUT  no interpreter became free in time
 *   -ESHUTDOWN  the group is being ended, or belongs to the parent of a fork
 *   -ENOMEM     there is no memory
 * Frees: end the session with hf_session_end().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_begin(struct hf_session **out, struct hf_interpreters *group, int index,
                            int timeout_ms);

/*
 * Returns the index of a session's interpreter in its group.
 *
 * Parameters:
 *   session  in: the session
 * Result: the index; 0 for NULL.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
HF_API unsigned hf_session_index(const struct hf_session *session);

/*
 * Names what a session runs: for hf_interpreters_stats(), and for the line about a crash
 * (hf_interpreters_start(), name_crashes).
 *
 * hf_session_call() does this by itself, with the name of the function; hf_session_run() and
 * replicas too. It is for a host that attaches a session and uses CPython's API.
 *
 * Parameters:
 *   session  in: the session; NULL: the one that the calling thread attached last
 *   name     in: a text, of which 127 bytes are copied; NULL: nothing runs
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     session is NULL, and the thread is attached to no session
 *   -EPERM      the session belongs to another thread
 *   -ESHUTDOWN  the session belongs to the parent of a fork
 * Frees: nothing.
 * Threads: safe; a session that nobody has attached yet may be named by one thread at a time.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_name(struct hf_session *session, const char *name);

/*
 * Attaches the calling thread to a session's interpreter: the thread may use CPython's API until
 * hf_session_detach().
 *
 * The thread may be attached to any interpreter, the main one or one of another session; that
 * attachment is interrupted, and hf_session_detach() restores it. Attachments nest. A session
 * belongs to the first thread that attaches it; its thread state lasts as long as the session, or
 * with HF_ENGINE_THREADS as long as the thread.
 *
 * Parameters:
 *   session  in: the session
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     session is NULL
 *   -EPERM      the session belongs to another thread
 *   -ESHUTDOWN  the session belongs to the parent of a fork
 *   -ENOMEM     there is no memory
 * Frees: nothing.
 * Threads: safe; waits for the interpreter's GIL.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_attach(struct hf_session *session);

/*
 * Takes back the thread's last hf_session_attach().
 *
 * The thread is attached again to what it was attached to before, if anything.
 *
 * Parameters:
 *   session  in: the session that was attached last
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     session is NULL, or is not what this thread attached last
 *   -EPERM      the thread is not attached to the session's interpreter: it detached by itself
 *   -ESHUTDOWN  the session belongs to the parent of a fork
 * Frees: nothing.
 * Threads: any, the one that attached.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_detach(struct hf_session *session);

/*
 * Ends a session, and detaches it if it is what the calling thread attached last.
 *
 * A session that belongs to another thread ends when that thread next calls a function of this
 * header, or ends. A thread that ends takes its sessions along.
 *
 * Parameters:
 *   session  in: the session; NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: the session.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_session_end(struct hf_session *session);

/* ---- calls ---- */

/*
 * Runs Python source in the __main__ of a session's interpreter.
 *
 * Parameters:
 *   session  in: the session; attached for the call if it is not
 *   source   in: any number of statements
 *   error    out: HF_VALUE_ERROR if Python raised, else HF_VALUE_NONE; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  session or source is NULL
 *   -EPROTO  Python raised
 *   others   as hf_session_attach()
 * Frees: pass error to hf_value_clear().
 * Threads: safe; waits for the interpreter's GIL.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_run(struct hf_session *session, const char *source, struct hf_value *error);

/*
 * Calls a Python function in a session's interpreter.
 *
 * Objects that are neither simple nor have a buffer come back as pickles, and so do lists that
 * hold themselves, or others many times or deeper than 64, and buffers of objects; with the package
 * `homefree` in the interpreter, a pickle leaves out the memory of arrays, and that crosses by
 * reference. A pickle can be an argument in any interpreter of the process.
 *
 * Parameters:
 *   session    in: the session; attached for the call if it is not
 *   function   in: "module:name" or "module:name.name"; the module is imported if it is not yet
 *   arguments  in: count values; HF_VALUE_ERROR is none
 *   count      in: how many
 *   result     out: what the function returned, or HF_VALUE_ERROR; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL  session or function is NULL, function has no colon, or an argument is invalid
 *   -EPROTO  Python raised: in the function, or because there is no such function, or because its
 *            result cannot be pickled
 *   others   as hf_session_attach()
 * Frees: pass result to hf_value_clear(). The arguments stay the caller's.
 * Threads: safe; waits for the interpreter's GIL.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_session_call(struct hf_session *session, const char *function,
                           const struct hf_value *arguments, size_t count, struct hf_value *result);

/*
 * Calls a Python function in the interpreter of a group that has the fewest sessions.
 *
 * Parameters:
 *   group      in: the group
 *   function   in: as for hf_session_call()
 *   arguments  in: count values
 *   count      in: how many
 *   result     out: what the function returned, or HF_VALUE_ERROR; may be NULL
 * Result: 0 or a negative errno.
 * Errors:
 *   others  as hf_session_begin() and hf_session_call()
 * Frees: pass result to hf_value_clear(). The arguments stay the caller's.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_call(struct hf_interpreters *group, const char *function,
                                const struct hf_value *arguments, size_t count,
                                struct hf_value *result);

/* ---- what others hold ---- */

/*
 * Has a function run by a thread that is attached to an interpreter.
 *
 * It runs when a session of that interpreter is next attached or detached, or on the owner thread;
 * for the main interpreter, and for one that others have made, on a thread of homefree's. One that
 * others have made must be known by an earlier hf_interpreters_hold(); what is still queued when it
 * ends runs in a function that Python's `atexit` calls there.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it, of hf_interpreter_current() or
 *                hf_interpreters_stats(); 0 is the main interpreter
 *   run          in: the function; must return attached, without an exception set
 *   argument     in: for the function
 * Result: 0 or a negative errno.
 * Errors:
 *   -EINVAL     run is NULL
 *   -ESHUTDOWN  there is no such interpreter any more, it was never known, or CPython is finalized
 *   -ECANCELED  an interpreter that others have made is being ended
 *   -EAGAIN     there can be no more threads
 *   -ENOMEM     there is no memory
 *   -ENOTSUP    this installation has no libhomefree-interpreters.so, and so no interpreters
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe; a child forgets what was posted.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_post(int64_t interpreter, void (*run)(void *argument), void *argument);

/*
 * Counts one more thing of an interpreter that others hold: it does not end before all of them were
 * taken back with hf_interpreters_unhold(), which a posted function usually does.
 *
 * The main interpreter ends when CPython ends it. So does an interpreter that others have made
 * (concurrent.interpreters, Py_NewInterpreterFromConfig()), which becomes known when a thread that
 * is attached to it calls this: what others hold of it then is never released.
 *
 * Parameters:
 *   interpreter  in: CPython's number for it
 * Result: 0 or a negative errno.
 * Errors:
 *   -ESHUTDOWN  there is no such interpreter any more, or others have made it and the calling
 *               thread is not attached to it
 *   -ECANCELED  an interpreter that others have made is being ended
 *   -ENOTSUP    this installation has no libhomefree-interpreters.so, and so no interpreters
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int hf_interpreters_hold(int64_t interpreter);

/*
 * Takes back one hf_interpreters_hold().
 *
 * Parameters:
 *   interpreter  in: CPython's number for it
 * Result: none.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_interpreters_unhold(int64_t interpreter);

/*
 * Returns CPython's number for the interpreter that the calling thread is attached to.
 *
 * Result: the number, 0 for the main interpreter; -1 if the thread is attached to none.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API int64_t hf_interpreter_current(void);

#ifdef __cplusplus
}
#endif
#endif
