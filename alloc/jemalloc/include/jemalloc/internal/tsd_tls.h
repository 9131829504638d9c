/*
 * Puts jemalloc's thread data behind one 8-byte initial-exec slot.
 *
 * Owns the slot's states; replaces jemalloc's own header of this name (the include path lists this
 * one first). Shared by all of jemalloc and fast_path.h. Each thread writes only its own slot, so
 * there is no lock.
 *
 * Constraint: glibc reserves about 1.6 KB of static TLS for libraries that are loaded late, and
 * jemalloc's thread data is larger, so it cannot be thread-local itself; the slower TLS models
 * double the time of a malloc+free pair. A pointer's 8 bytes always fit.
 *
 * The slot is never NULL, so the fast paths need no test for it. It points to
 *   tsd_tls              in a thread that has not used the heap: a template that is never written,
 *                        in the state `uninitialized`, whose thresholds of 0 divert every fast path
 *                        to the slow one;
 *   the thread's data    from its first slow path to its end;
 *   hf_thread_ended      once the thread's data is gone: same contents as the template; later calls
 *                        use the emergency data, see fast_path.h;
 *   hf_thread_emergency  while the thread holds the emergency lock.
 */
#ifdef JEMALLOC_INTERNAL_TSD_TLS_H
#error This file should be included only once, by tsd.h.
#endif
#define JEMALLOC_INTERNAL_TSD_TLS_H

#include "jemalloc/internal/jemalloc_preamble.h"

#include "jemalloc/internal/tsd_internals.h"
#include "jemalloc/internal/tsd_types.h"

/* tsd.c defines tsd_tls with this macro: here an ordinary object, the template. */
#define JEMALLOC_TSD_TYPE_ATTR(type) type

extern tsd_t tsd_tls;
extern pthread_key_t tsd_tsd;
extern bool tsd_booted;
extern bool hf_thread_no_key; /* the process has no key left: see left_data.h */

extern tsd_t hf_thread_ended;
extern tsd_t hf_thread_emergency;
extern __thread tsd_t *hf_thread_slot
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Creates data for the calling thread if the slot holds a template, and returns it. Ends the
 * process if there is no memory for it; callers that can fail use hf_enter() first. */
tsd_t *hf_thread_own(tsd_t *tsd);
/* Destructor of tsd_tsd: runs in an ending thread, up to PTHREAD_DESTRUCTOR_ITERATIONS times. */
void hf_thread_end(void *tsd);

JEMALLOC_ALWAYS_INLINE bool
tsd_boot0(void) {
	hf_thread_no_key = pthread_key_create(&tsd_tsd, &hf_thread_end) != 0;
	tsd_booted = true;
	return false;
}

JEMALLOC_ALWAYS_INLINE void
tsd_boot1(void) {
}

JEMALLOC_ALWAYS_INLINE bool
tsd_boot(void) {
	return tsd_boot0();
}

JEMALLOC_ALWAYS_INLINE bool
tsd_booted_get(void) {
	return tsd_booted;
}

/* Returning false keeps the tests for thread data and for jemalloc's initialisation out of the fast
 * paths: the template answers both. */
JEMALLOC_ALWAYS_INLINE bool
tsd_get_allocates(void) {
	return false;
}

JEMALLOC_ALWAYS_INLINE tsd_t *
tsd_get(bool init) {
	tsd_t *tsd = hf_thread_slot;
	(void)init;
	if (tsd == NULL) {
		__builtin_unreachable();
	}
	return tsd;
}

/* Registers the destructor. The emergency data belongs to no thread and needs none. If this fails
 * (ENOMEM for a late key), the thread's caches leak at its end; nothing else breaks. */
JEMALLOC_ALWAYS_INLINE void
tsd_set(tsd_t *tsd) {
	if (tsd != &hf_thread_emergency && !hf_thread_no_key) {
		(void)pthread_setspecific(tsd_tsd, tsd);
	}
}
