/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Satellites: shared libraries that hold the parts of homefree which few processes need. They lie
 * next to this library, as libhomefree-NAME.so, and are opened when somebody first asks for them.
 * A Meson option of the satellite's name leaves it out of a build.
 *
 * Core and satellite call each other through one table of functions each way, whose types are in a
 * header of the core. Neither links the other, and a satellite exports its entry alone. So it works
 * below each library that homefree has (the plain one, the preloaded ones, a renamed one in a
 * wheel), also where a process has several. The two must be of one build: both have the stamp that
 * alloc/base/stamp.sh makes of the version and of all headers.
 *
 * satellite.c owns the list of what is open, where this library lies, and a lock. Any thread, also
 * with the dynamic linker's lock held; not in a signal handler, nor with a lock of the heap. A
 * satellite stays for ever.
 */
#ifndef HOMEFREE_ALLOC_BASE_SATELLITE_H
#define HOMEFREE_ALLOC_BASE_SATELLITE_H

#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define HF_SATELLITE_SONAME "libhomefree-" /* how their sonames begin */
#define HF_SATELLITE_ENDING ".so"          /* and end */

/* Not a libhomefree.so.1 that auditwheel has given another name: libhomefree-1a2b3c4d.so.1. */
static inline bool hf_satellite_is_soname(const char *soname)
{
    const size_t length = strlen(soname), begin = strlen(HF_SATELLITE_SONAME),
                 end = strlen(HF_SATELLITE_ENDING);
    return length > begin + end && memcmp(soname, HF_SATELLITE_SONAME, begin) == 0 &&
           strcmp(soname + length - end, HF_SATELLITE_ENDING) == 0;
}

/* What a satellite exports. */
#define HF_SATELLITE_ENTRY "hf_satellite_entry"
struct hf_satellite_entry {
    char stamp[96]; /* first in every version */
    char name[16];
    /* Takes the core's table, prepares the satellite and returns its table, or NULL if the system
     * refuses. One thread calls it at a time, under a lock: it must not ask for the dynamic
     * linker's, nor for a satellite. It is called again in a child that was forked meanwhile, and
     * by another instance of libhomefree that lies in the same directory. */
    const void *(*begin)(const void *core);
    char *fork_locks, *fork_locks_end; /* HF_FORK_LOCK */
};

/* Defines a satellite's entry. It needs "alloc/build_stamp.h". */
#define HF_SATELLITE(satellite_name, begin_function)                                              \
    extern char hf_fork_locks_first[] __asm__("__start_hf_fork_locks")                            \
        __attribute__((weak, visibility("hidden")));                                              \
    extern char hf_fork_locks_end[] __asm__("__stop_hf_fork_locks")                               \
        __attribute__((weak, visibility("hidden")));                                              \
    extern const struct hf_satellite_entry hf_satellite_entry;                                    \
    __attribute__((visibility("default"))) const struct hf_satellite_entry hf_satellite_entry = { \
        HF_BUILD_STAMP, #satellite_name, (begin_function), hf_fork_locks_first, hf_fork_locks_end}

/* A satellite as the core knows it, in a sealed table. The core's unit for it sets the first two.
 */
struct hf_satellite {
    const char *name;
    const void *core;                       /* the core's table */
    const void *functions;                  /* the satellite's; NULL: not open */
    const struct hf_satellite_entry *entry; /* once it is open */
    struct hf_satellite *next;              /* opened before */
};

/* The satellite's table if it is open, or NULL. Any thread, in signal handlers too. */
static inline const void *hf_satellite_functions(const struct hf_satellite *satellite)
{
    return __atomic_load_n(&satellite->functions, __ATOMIC_ACQUIRE);
}

/* Remembers where this library lies, for as long as its directory is there and the process has not
 * left it by chroot(2). Called once, by libhomefree's start. Preserves errno. */
void hf_satellites_start(void);

/* Opens the satellite unless it is open. Returns its table, or NULL if there is none that fits:
 * then `why`, of `size` bytes, says so, with the file and the option; without `why`, the first
 * failure is a warning. Preserves errno. */
const void *hf_satellite_open(struct hf_satellite *satellite, char *why, size_t size);

/* In a forked child: nobody holds the locks of what is open. */
void hf_satellites_in_child(void);

#endif
