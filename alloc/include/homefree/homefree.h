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
 * ENOMEM when the region is full or the system refuses memory (nothing is lost then), EINVAL for an
 * alignment that is no power of two (hf_posix_memalign returns the positive errno, as
 * posix_memalign does).
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
 * MallocExtension_GetOwnership) go to that. The sized forms take C23's arguments; the size is not
 * trusted.
 */
HF_API void hf_free(void *ptr);
HF_API void hf_free_sized(void *ptr, size_t size);
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
    const char *allocator; /* "homefree", "mimalloc", "tcmalloc"; NULL where unknown */
    const char *object;    /* path of the shared object that holds the allocator; NULL if unknown */
    const void *block;     /* first byte of the block; NULL where it cannot be known */
    size_t block_size;     /* usable bytes of the block; 0 where it cannot be known */
    const char *domain;    /* CPython's "raw", "mem" or "object"; NULL where it cannot be known */
};

/*
 * Names the owner of an address. For a heap address, `block` and `block_size` are filled when ptr
 * is the first byte of a live block.
 * Result: 0; -EINVAL when out is NULL or its size is too small. Takes no lock on the heap.
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
    const void *slot;     /* address of the slot; NULL where there is none */
    const char *reason;   /* one line for a person; NULL for changed slots */
    int error;            /* negative errno where the system refused; else 0 */
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
 * there. Takes the heap's locks; not for fast paths.
 */
HF_API int hf_stats(struct hf_stats *out);

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

/* The version of the loaded library, "1.0.0"; a static string. */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#    pragma GCC diagnostic pop
#endif
#endif
