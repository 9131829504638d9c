/*
 * homefree.h - allocate anywhere, free anywhere.
 *
 * homefree gives a process one heap. All of the heap's pages lie in one reserved address range, the
 * region, so that "is this pointer the heap's?" is one subtraction and one comparison. Every
 * function here that takes a pointer takes *any* pointer: what the heap owns is freed by the heap,
 * everything else (a foreign pointer) goes to the allocator that owns it.
 *
 * Rules that hold for every function unless its comment says otherwise:
 *   - threads: may be called from any thread at any time, also while another thread is in it;
 *   - fork: may be called in the child of a many-threaded process, after any fork(2);
 *   - signals: must not be called from a signal handler;
 *   - interpreter: needs no Python, no GIL, and works after Py_Finalize() and during exit(3);
 *   - sizes are in bytes, alignments are powers of two in bytes;
 *   - functions that return int return 0 or a negative errno; the malloc family keeps malloc's
 *     conventions (NULL and errno);
 *   - all functions exist since homefree 1.0 (version node HOMEFREE_1.0).
 *
 * Corruption (a pointer inside the region that was never allocated, a block freed twice) ends the
 * process with SIGABRT after one message on stderr that names the pointer, its owner, who freed it,
 * what would have happened and what to do.
 */
#ifndef HOMEFREE_HOMEFREE_H
#define HOMEFREE_HOMEFREE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <wchar.h>

#define HF_VERSION_MAJOR 1
#define HF_VERSION_MINOR 0
#define HF_VERSION_PATCH 0
#define HF_VERSION       "1.0.0"

#ifdef __cplusplus
/* A function may share its struct's name (as stat(2) does); -Wshadow takes that for a mistake. The
 * inlined function is C's and C++'s. */
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wshadow"
#    pragma GCC diagnostic ignored "-Wold-style-cast"
extern "C" {
#endif

#define HF_API    __attribute__((visibility("default")))
#define HF_MALLOC __attribute__((malloc, warn_unused_result))

/* ---- the malloc family ---- */

/*
 * As malloc(3), calloc(3), realloc(3), reallocarray(3), aligned_alloc(3), posix_memalign(3) and
 * memalign(3), from the heap. A size of 0 gives a distinct pointer that may be freed.
 *
 * Result: a block that the caller frees with hf_free(), or with any routed free(); NULL with errno
 * ENOMEM when the region is full or the system refuses memory (nothing is lost then). An alignment
 * that is no power of two is rounded up, as glibc does, and EINVAL where that cannot be;
 * hf_posix_memalign refuses it, and returns the positive errno, as posix_memalign does.
 *
 * hf_realloc and hf_reallocarray resize a foreign block with its own allocator, where it stays;
 * hf_realloc(NULL, n) allocates from the heap, and hf_realloc(p, 0) frees p and returns NULL, as
 * glibc's does.
 */
HF_API HF_MALLOC void *hf_malloc(size_t size);
HF_API HF_MALLOC void *hf_calloc(size_t count, size_t size);
HF_API void *hf_realloc(void *ptr, size_t size);
HF_API void *hf_reallocarray(void *ptr, size_t count, size_t size);
HF_API HF_MALLOC void *hf_aligned_alloc(size_t alignment, size_t size);
HF_API HF_MALLOC void *hf_memalign(size_t alignment, size_t size);
HF_API int hf_posix_memalign(void **out, size_t alignment, size_t size);

/*
 * Frees a block, whoever allocated it; NULL does nothing. errno is left as it was.
 *
 * A foreign block goes to free() as libhomefree sees it: the allocator that was preloaded, or libc;
 * blocks of a mimalloc or tcmalloc that says so itself (mi_is_in_heap_region,
 * MallocExtension_GetOwnership) go to that. What nobody allocated (static data, a stack) ends the
 * process with a line that names it, or is left alone with HOMEFREE_CONF=static_free:ignore. The
 * sized forms take C23's arguments, hf_free_aligned those of C++'s aligned operator delete. Size
 * and alignment are not trusted: HOMEFREE_CONF=checks:full compares them with the block.
 */
HF_API void hf_free(void *ptr);
HF_API void hf_free_sized(void *ptr, size_t size);
HF_API void hf_free_aligned(void *ptr, size_t alignment);
HF_API void hf_free_aligned_sized(void *ptr, size_t alignment, size_t size);

/*
 * The usable size in bytes of a block, whoever allocated it; 0 for NULL. All of these bytes may be
 * used.
 */
HF_API size_t hf_usable_size(const void *ptr);

/* ---- libc's functions that hand out or grow heap memory ---- */

/*
 * Each behaves as the libc function of its name, except that the memory it hands out is the heap's.
 * Where a function is given a buffer to grow (hf_getline, hf_getdelim), that buffer may be
 * anybody's and is grown by its owner. The caller frees each result with hf_free() or any routed
 * free().
 */
HF_API HF_MALLOC char *hf_strdup(const char *s);
HF_API HF_MALLOC char *hf_strndup(const char *s, size_t n);
HF_API HF_MALLOC wchar_t *hf_wcsdup(const wchar_t *s);
HF_API __attribute__((format(printf, 2, 3))) int hf_asprintf(char **out, const char *format, ...);
HF_API __attribute__((format(printf, 2, 0))) int hf_vasprintf(char **out, const char *format,
                                                              va_list args);
HF_API ssize_t hf_getline(char **line, size_t *size, FILE *stream);
HF_API ssize_t hf_getdelim(char **line, size_t *size, int delimiter, FILE *stream);
HF_API char *hf_realpath(const char *path, char *resolved);
HF_API char *hf_getcwd(char *buffer, size_t size);
HF_API char *hf_get_current_dir_name(void);
HF_API char *hf_canonicalize_file_name(const char *path);
HF_API char **hf_backtrace_symbols(void *const *addresses, int count);
HF_API FILE *hf_open_memstream(char **buffer, size_t *size);
struct dirent;
HF_API int hf_scandir(const char *directory, struct dirent ***names,
                      int (*select)(const struct dirent *),
                      int (*compare)(const struct dirent **, const struct dirent **));
HF_API int hf_scandirat(int dirfd, const char *directory, struct dirent ***names,
                        int (*select)(const struct dirent *),
                        int (*compare)(const struct dirent **, const struct dirent **));

/* ---- owners ---- */

/* The region. Written once, while libhomefree is loaded; read it only through hf_owns(). */
struct hf_region_range {
    uintptr_t base;
    size_t size;
};
HF_API extern struct hf_region_range hf_region_range;

/*
 * Whether an address lies in the region, that is, whether the heap owns it. True also for an
 * address inside a block, a freed block, or pages that the heap has not handed out yet.
 * Lock-free, async-signal-safe, never fails. Inlined; also exported for callers that are not C.
 */
#if defined(__GNUC__) && !defined(HF_NO_INLINE)
HF_API __attribute__((gnu_inline)) extern inline bool hf_owns(const void *ptr)
{
    return (uintptr_t)ptr - hf_region_range.base < hf_region_range.size;
}
#else
HF_API bool hf_owns(const void *ptr);
#endif

enum hf_owner_kind {
    HF_OWNER_UNKNOWN = 0,   /* memory that nobody is known to own */
    HF_OWNER_HEAP = 1,      /* the heap; `block` is NULL where no live block is */
    HF_OWNER_PYMALLOC = 2,  /* CPython's allocator for small objects; `domain` where it can tell */
    HF_OWNER_LIBC = 3,      /* libc's malloc */
    HF_OWNER_ALLOCATOR = 4, /* another allocator, named in `allocator` and `object` */
    HF_OWNER_STACK = 5,     /* the stack of a thread */
    HF_OWNER_STATIC = 6,    /* inside a loaded shared object or program, named in `object` */
    HF_OWNER_UNMAPPED = 7   /* no memory is there */
};

/* Filled by hf_owner_of(). `size` is set by the caller to sizeof(struct hf_owner): fields that a
 * caller does not know are not written. Strings live as long as the process. */
struct hf_owner {
    size_t size;
    enum hf_owner_kind kind;
    const char *allocator; /* "homefree", "glibc", "mimalloc", …; NULL where unknown */
    const char *object;    /* path of the shared object that holds the allocator; NULL if unknown */
    const void *block;     /* first byte of the block; NULL where it cannot be known */
    size_t block_size;     /* usable bytes of the block; 0 where it cannot be known */
    const char *domain;    /* CPython's "raw", "mem" or "object"; NULL where it cannot be known */
};

/*
 * Names the owner of an address; any value may be asked about, and nothing at it is touched. The
 * answer is exact or HF_OWNER_UNKNOWN, never guessed. `block` and `block_size` tell the live block
 * that holds the address: always for the heap (a block that another thread has just freed may count
 * as live for a while), and for libc's malloc where its own data tells (one that waits for reuse in
 * a cache of libc's counts as live). Another allocator inside the process is named where the calls
 * by which it maps memory are routed, or where it has a function that can be asked; a stack of
 * another thread, where glibc made it (x86-64).
 * Result: 0; -EINVAL when out is NULL or its size is too small. Takes no lock on the heap. Outside
 * the heap it reads /proc/self/maps: tens of microseconds.
 */
HF_API int hf_owner_of(const void *ptr, struct hf_owner *out);

/* ---- routing ---- */

/*
 * Makes the deallocation calls of every loaded shared object ask for the owner first (free,
 * realloc, reallocarray, malloc_usable_size, and what else frees). libhomefree does so by itself
 * when it is loaded and after every dlopen() that it sees; call this after loading objects by means
 * it cannot see. Costs a few hundred nanoseconds when nothing was loaded since.
 * Result: the number of slots changed; -EPERM when HOMEFREE_CONF says route:off.
 * Must not be called from an IFUNC resolver. Takes the dynamic loader's lock.
 */
HF_API int hf_route(void);

enum hf_route_state {
    HF_ROUTE_CHANGED = 0,     /* the slot asks for the owner first */
    HF_ROUTE_REFUSED = 1,     /* it could not or must not be changed; `reason` says why */
    HF_ROUTE_OUT_OF_REACH = 2 /* there is no slot that could be changed */
};

struct hf_route_entry {
    size_t size;
    enum hf_route_state state;
    const char *object;   /* path of the shared object or program */
    const char *function; /* "free", … ; NULL where the whole object is meant */
    const void *slot;   /* address of the slot; NULL where there is none. In libc's and libstdc++'s
                           symbol tables, of the entry, which holds an offset from the object */
    const char *reason; /* one line for a person; NULL for changed slots */
    int error;          /* negative errno where the system refused; else 0 */
};

struct hf_route_report {
    size_t size;
    uint64_t objects;      /* shared objects and the program, in every namespace */
    uint64_t changed;      /* slots that ask for the owner first */
    uint64_t refused;      /* slots that were left as they were */
    uint64_t out_of_reach; /* objects, or slots, that routing cannot reach */
    uint64_t passes;       /* times that routing looked for new objects */
    uint64_t nanoseconds;  /* time spent in all passes */
};

typedef void hf_route_visitor(const struct hf_route_entry *entry, void *context);

/*
 * Says what routing reached, from a fresh look at every object: `out` (may be NULL) gets the sums,
 * `visit` (may be NULL) is called for each entry. `visit` must not load or unload objects; the
 * entry and its strings are valid during the call only.
 * Result: 0; -EINVAL when out's size is too small. Takes the dynamic loader's lock.
 */
HF_API int hf_route_report(struct hf_route_report *out, hf_route_visitor *visit, void *context);

/* ---- adopting ---- */

/*
 * Makes a loaded object that was not linked with homefree allocate from the heap: its calls of the
 * malloc family, of libc's functions that hand out memory (strdup, asprintf, getline, …) and of
 * operator new go there from now on. The object's alone: not those of the libraries that it needs,
 * and not those of functions that it defines itself. What it allocated before goes home as before.
 *
 * handle: from dlopen(), of an object that stays loaded for the time of the call. The call is
 * idempotent. Everything is changed, or nothing; hf_route_report() then has an entry for each
 * changed slot, or one that says why the object was refused.
 * Result: the number of slots changed, 0 when there is none left to change (a module that is linked
 * with the shim has none); -EINVAL when handle is no loaded object's; -EPERM when HOMEFREE_CONF
 * says route:off; -ENOTSUP for an object with an allocator of its own, for the program, libc, the
 * C++ runtime and homefree; -EACCES or what the system said when a slot cannot be written, or a
 * call by which the object frees cannot be routed; -ENOSPC, -E2BIG where homefree's tables are
 * full.
 * Must not be called from an IFUNC resolver. Takes the dynamic loader's lock. Frees nothing.
 */
HF_API int hf_adopt(void *handle);

/* ---- private copies ---- */

/*
 * Copies a shared object's file so that dlopen() of the copy, with RTLD_LOCAL, gives an object of
 * its own: none of its globals, inline statics and thread-local variables are shared with the
 * original or another copy. What the libraries that it needs define stays shared.
 *
 * path: the original, which is only read. out: gets the copy's absolute path; size: of out in
 * bytes, PATH_MAX is always enough. The copy lies beside the original where that folder can be
 * written, otherwise in a folder for this user alone below XDG_RUNTIME_DIR, TMPDIR, /tmp or
 * /var/tmp (privileged processes: the last two). $ORIGIN means the original's folder in either
 * case, for the libraries that it needs and for what it opens. The libraries that it needs are
 * loaded.
 * Result: 0; -ENOEXEC when the file is damaged or no ELF file; -ENOTSUP for another machine;
 * -EINVAL, -EISDIR for what is no file; -EPERM where no place allows code to be executed; -ENOSPC;
 * or what the system said of the original or of the places.
 * The caller may remove the file with hf_private_remove() at any time, also while it is loaded:
 * debuggers then lose its symbols. Otherwise it is removed when the process exits, or, after a
 * crash, by the next process of the same user that makes copies in the same folder; a child of
 * fork() leaves its parent's copies alone.
 * Must not be called from a constructor of the copied object's libraries. Uses malloc() and the
 * dynamic loader.
 */
HF_API int hf_private_copy(const char *path, char *out, size_t size);

/* Removes the file of a copy that this process has made. Result: 0, also when it was removed
 * before; -EINVAL; -ENOENT when path is no copy of ours. */
HF_API int hf_private_remove(const char *path);

/* ---- statistics ---- */

struct hf_stats {
    size_t size;
    uint64_t region_reserved; /* bytes of address space in the region */
    uint64_t region_used;     /* of them, bytes that the heap has taken so far */
    uint64_t allocated;       /* bytes in live blocks */
    uint64_t active;          /* bytes in pages that hold live blocks */
    uint64_t resident;        /* upper bound of physical memory in bytes */
    uint64_t metadata;        /* bytes of the heap's own bookkeeping */
    uint32_t arenas;          /* arenas that threads allocate from */
    uint32_t forwards;        /* 1 when this copy of libhomefree forwards to another one */
    uint64_t releases_live;   /* records that hold a pointer still to be freed */
    uint64_t releases_run;    /* records whose pointer was freed */
    uint64_t releases_leaked; /* records whose pointer could not be freed safely */
};

/*
 * Fills out, whose `size` the caller has set to sizeof(struct hf_stats). Fields beyond the caller's
 * size are not written. Result: 0; -EINVAL; -ENOMEM when the counters need memory that is not
 * there; -EAGAIN while another thread's fork takes long. Takes the heap's locks; not for fast
 * paths.
 */
HF_API int hf_stats(struct hf_stats *out);

/* ---- the host: CPython and NumPy ---- */

/* What CPython gets from the heap. What was allocated before keeps its allocator in every mode. */
enum hf_python_mode {
    HF_PYTHON_OFF = 0,   /* nothing */
    HF_PYTHON_RAW = 1,   /* the RAW domain; what a free-threaded build gets instead of the others */
    HF_PYTHON_ARENA = 2, /* the RAW domain, and the arenas that pymalloc keeps small objects in */
    HF_PYTHON_FULL = 3   /* the domains RAW, MEM and OBJ */
};

/* What NumPy's arrays get from the heap. */
enum hf_python_numpy {
    HF_PYTHON_NUMPY_OFF = 0,       /* not asked for */
    HF_PYTHON_NUMPY_ABSENT = 1,    /* NumPy is not imported: ask again when it is */
    HF_PYTHON_NUMPY_INSTALLED = 2, /* all memory of arrays, in every thread */
    HF_PYTHON_NUMPY_CONTEXT = 3,   /* the same in the calling thread's context alone, because
                                      NumPy's default handler is not one that is known */
    HF_PYTHON_NUMPY_OLD = 4,       /* nothing: NumPy before 1.22 has no handlers */
    HF_PYTHON_NUMPY_UNKNOWN = 5    /* nothing: NumPy refused the handler */
};

/* `size` is set by the caller to sizeof; absent fields mean the default. */
struct hf_python_options {
    size_t size;
    enum hf_python_mode python; /* HF_PYTHON_OFF, _ARENA (the default) or _FULL */
    int numpy;                  /* not 0 (the default): NumPy's arrays as well */
    void (*cpython)(void);      /* any function of the CPython that is meant; NULL: by name */
};

struct hf_python_state {
    size_t size;
    enum hf_python_mode python; /* in force now: what earlier calls asked for is never taken back */
    enum hf_python_numpy numpy;
};

/*
 * Makes CPython, and the NumPy that it has imported, allocate from the heap from now on. Calling it
 * again adds what is missing. NULL options mean the defaults; out may be NULL.
 *
 * CPython's debug hooks and tracemalloc stay in front and see every block. A block of pymalloc that
 * anybody frees goes to CPython when the calling thread is attached to the interpreter that owns
 * it; once the interpreter has ended it is left alone; and otherwise the process ends.
 *
 * Result: 0; -EINVAL for a wrong option; -ENOENT where the process has no CPython from 3.9 on;
 * -EPERM when HOMEFREE_CONF says route:off, which CPython's own frees need; -EACCES when CPython
 * runs and the calling thread is not attached to it (does not hold the GIL); -ENOSPC when others
 * have hooked the same domain too often in between; -ENOTSUP when this copy of libhomefree forwards
 * to one that cannot. Threads: any that is attached, or any at all before Py_Initialize(). Fork: a
 * child keeps what is installed. A program that starts CPython again after Py_Finalize() calls this
 * again: from 3.12 on CPython forgets its allocators then.
 */
HF_API int hf_python_install(const struct hf_python_options *options, struct hf_python_state *out);

/*
 * CPython and NumPy allocate from where they did before hf_python_install(); what they have from
 * the heap still goes back to it, and routing goes on. Any thread. Result: 0, or -ENOTSUP.
 */
HF_API int hf_python_uninstall(void);

/* ---- releases ---- */

/*
 * A record of a destructor: a pointer, the function that frees it, and a number of references. Who
 * drops the last reference frees the pointer; exactly once, on that thread, with nothing of Python.
 * Records are what homefree/python.h's capsules, buffers and DLPack tensors stand on, and what a C
 * thread holds on to so that their memory outlives the interpreter.
 *
 * The shared object that holds the freeing function is never unloaded from then on; code that no
 * shared object holds (made at run time) is its maker's to keep.
 *
 * What cannot be freed safely is leaked, and counted in hf_stats (releases_leaked). That is:
 *   - a record whose last reference goes after libhomefree's own ELF destructor, that is, when exit
 *     handlers and the static objects of what depends on libhomefree are gone already;
 *   - a record whose function's object could not be kept and is gone (an object that the loader
 *     knows under another object's name, and that was unloaded since);
 *   - a record of hf_release_new_attempt() whose function said that it could not free.
 * Records that nobody ever drops are counted in releases_live until the process ends.
 *
 * Threads: a record may be taken and dropped on any threads at once. The functions but for the
 * makers take no lock. Fork: the child has its own records, copies of the parent's.
 */
struct hf_release;

/*
 * Makes a record with one reference, the caller's.
 *   out      set to the record; only on success
 *   pointer  what to free; not NULL. The caller's to free, as before, when this fails.
 *   destroy  frees it: any thread, no GIL, also after Py_Finalize() and in exit handlers; must not
 *            throw, and must not call Python unless it knows better
 *   name     for people and for PyCapsule; copied; may be NULL
 * Result: 0; -EINVAL where out, pointer or destroy is NULL; -ENOMEM.
 * Takes the dynamic loader's lock the first time that a shared object's function is given.
 */
HF_API int hf_release_new(struct hf_release **out, void *pointer, void (*destroy)(void *pointer),
                          const char *name);

/* The same for a function that finds out when it is called whether it may free: below 0 it could
 * not, and the pointer is leaked and counted. */
HF_API int hf_release_new_attempt(struct hf_release **out, void *pointer,
                                  int (*attempt)(void *pointer), const char *name);

/* One more reference; the caller has one, or knows who does. */
HF_API void hf_release_take(struct hf_release *record);

/* One reference less; NULL does nothing. The last one frees the pointer, if nobody has, and the
 * record. errno is left as it was. */
HF_API void hf_release_drop(struct hf_release *record);

/*
 * Frees the pointer now, whoever holds references; they stay to be dropped.
 * Result: 0; -EALREADY where it was freed, is being freed by another thread, or was forbidden;
 * -ECANCELED where it was leaked.
 */
HF_API int hf_release_run(struct hf_release *record);

/* Gives the pointer back to the caller: it will not be freed by this record. Result: 0; -EALREADY
 * where it was freed, or given back, before. */
HF_API int hf_release_forbid(struct hf_release *record);

/* The pointer and the name that the record was made with; the name lives as long as the record. */
HF_API void *hf_release_pointer(const struct hf_release *record);
HF_API const char *hf_release_name(const struct hf_release *record);

/* Whether an address, any address, is that of a record that has references. */
HF_API bool hf_release_is(const void *ptr);

/*
 * Keeps the shared object that holds this code from ever being unloaded; for function pointers that
 * are given to others.
 * Result: 0; -ENOENT where no object holds it; -EBUSY where the loader cannot name that object.
 * Takes the dynamic loader's lock the first time that an object is given.
 */
HF_API int hf_release_pin(const void *code);

/* ---- watching ---- */

/*
 * A watch records what the heap hands out and takes back while it is open, in all threads, and
 * whose code asked for it: so it is known which memory crossed a boundary. homefree/check.h makes
 * assertions of it.
 *
 * Whose code: the shared object that holds the call, that is, the code that wrote malloc, free, new
 * or delete, looked at through the shim, routing and libhomefree. Modules that are linked with the
 * shim are known exactly, 32 of them. Other objects are known by the return address: where the last
 * thing that a function does is to free, that is its caller's, because compilers make a jump of it.
 * (So it is with libstdc++'s operator delete; what a std::string does inside libstdc++ is
 * libstdc++'s.) Memory that CPython's own functions allocate and free is the interpreter's, whoever
 * calls them.
 *
 * A crossing is a block that one object got from the heap and another one freed, or resized. A
 * resized block is from then on the one's who resized it. Memory of another allocator that is freed
 * through the heap (hf_free, also as a module's free) is a crossing too: from the object that holds
 * its allocator, which is libc for what libc's malloc handed out, whoever had called that. Who
 * allocated a block before the watch began is not known, also where another watch does know it;
 * freeing it is no crossing then, but counted (`before` below).
 *
 * While any watch is open every call takes the heap's slow path and a lock; while none is, watching
 * costs nothing. A call that another thread is in when the watch begins or ends may be missed.
 * Watches may overlap; each has its own begin and its own records. Fork: a child has copies of its
 * parent's watches, open ones stay open, and each process records its own calls from then on.
 */
struct hf_watch;

/* What a watch saw. */
struct hf_watch_report {
    size_t size;
    uint64_t allocations; /* blocks that the heap handed out */
    uint64_t frees;       /* blocks that the heap took back */
    uint64_t before;      /* of these, blocks that were handed out before the watch began */
    uint64_t foreign;     /* frees through the heap of blocks that it does not own */
    uint64_t crossings;   /* blocks that crossed */
    uint64_t dropped;     /* calls that were not recorded because the records were full */
};

/* Blocks that crossed from one object to another. */
struct hf_crossing {
    size_t size;
    const char *allocated_by; /* path of the shared object or program; "" where it is not known */
    const char *freed_by;     /* the same */
    uint64_t count;           /* blocks */
    uint64_t bytes; /* in them, as asked for; as usable where the heap does not own them */
};

/* What happened at one address. */
struct hf_watch_block {
    size_t size;
    uint32_t allocated;       /* how often a block there was handed out */
    uint32_t freed;           /* how often a block there was freed */
    uint32_t freed_unmatched; /* of these, without being handed out before, as far as the watch
                                 knows: 1 for a block from before the watch that was freed once */
    const char *allocated_by; /* who was handed the last one out; "" where it is not known */
    const char *freed_by; /* who freed the last one; "" where none was freed, or it is unknown */
};

typedef void hf_crossing_visitor(const struct hf_crossing *crossing, void *context);

/*
 * Begins a watch. room: how many different addresses it has room to record, at most 2^26; 0 for
 * half a million (32 MiB of address space, of which what is used becomes memory).
 * Result: 0, and the watch in *out, which the caller gives to hf_watch_drop(); -EINVAL; -ENOMEM;
 * -ENOSPC when HF_WATCHES_MAX are open; -ENOTSUP when this copy of libhomefree forwards to one that
 * has no watches. Takes the dynamic loader's lock, as hf_watch_end() and hf_watch_drop() do.
 */
HF_API int hf_watch_begin(struct hf_watch **out, size_t room);
#define HF_WATCHES_MAX 16

/* Ends a watch, whose records stay. Any thread. Result: 0; -EALREADY where it has ended before;
 * -EINVAL for NULL. */
HF_API int hf_watch_end(struct hf_watch *watch);

/* Ends a watch if need be, and gives its memory back, with the strings that it handed out. NULL
 * does nothing. */
HF_API void hf_watch_drop(struct hf_watch *watch);

/*
 * Says what a watch has seen so far: `out` (may be NULL) gets the sums, `visit` (may be NULL) is
 * called for each pair of objects that memory crossed between; its argument is valid during the
 * call, the strings in it as long as the watch.
 * Result: 0; -EINVAL for NULL, or when out's size is too small. Before glibc 2.35 this takes the
 * dynamic loader's lock, and does not know the names of objects that were unloaded meanwhile.
 */
HF_API int hf_watch_report(struct hf_watch *watch, struct hf_watch_report *out,
                           hf_crossing_visitor *visit, void *context);

/* Says what happened at an address, by which the first byte of a block is meant. Result: 0, with
 * counts of 0 where nothing did; -EINVAL. The loader's lock: as above. */
HF_API int hf_watch_at(struct hf_watch *watch, const void *block, struct hf_watch_block *out);

/* For who sends memory home by another way than hf_free(), as the shim's operator delete does with
 * what is not the heap's: tells open watches that the caller is about to free it. Does nothing
 * while none is open, and for NULL and the heap's own. */
HF_API void hf_watch_foreign(void *ptr);

/* ---- what the process is like ---- */

/*
 * Writes the facts about this process's allocators (the loaded objects, which allocator each uses,
 * what routing reached) to an open file, for `homefree doctor --read FILE`. The descriptor stays
 * the caller's; a pipe must have a reader in another process, because the dynamic loader's lock is
 * held meanwhile. Result: 0; a negative errno when the file could not be written; -ENOTSUP when
 * this copy of libhomefree forwards to one that has no records. Any thread; not in a signal
 * handler.
 */
HF_API int hf_doctor_record(int descriptor);

/* The version of the loaded library, "1.0.0"; a static string. */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
