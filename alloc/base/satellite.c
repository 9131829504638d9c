/*
 * See satellite.h. Owns the list of open satellites, whose head and members are sealed, and the
 * lock under which a satellite begins; below it, the seal's lock alone is taken.
 *
 * dlopen() takes the dynamic linker's lock, which a constructor holds that may ask at the same
 * time. So the lock is taken after it: two threads may both open the file, and get one object.
 */
#include "alloc/base/satellite.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/own_calls.h"
#include "alloc/build_stamp.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SATELLITES_MAX = 8 };

static union {
    struct hf_satellite *first;
    char pages[HF_SEAL_SIZE(struct hf_satellite *)];
} opened HF_SEALED;
static pthread_mutex_t HF_FORK_LOCK beginning = PTHREAD_MUTEX_INITIALIZER;

/* ---- the file ---- */

struct search {
    char path[PATH_MAX];
    const char *problem; /* NULL: the file can be opened */
};

/* Where everybody may make files, as in /tmp, a file of that name may be anybody's. */
static void examine(struct search *search)
{
    struct stat file, directory;
    char *slash = strrchr(search->path, '/');
    search->problem = NULL;
    if (stat(search->path, &file) != 0) {
        search->problem = strerror(errno);
        return;
    }
    if (!S_ISREG(file.st_mode)) { /* opening a pipe would wait for its writer */
        search->problem = "it is not a regular file";
        return;
    }
    *slash = '\0';
    const bool seen = stat(search->path, &directory) == 0;
    *slash = '/';
    if (!seen || (file.st_uid != 0 && file.st_uid != geteuid() && file.st_uid != directory.st_uid))
        search->problem = "the file belongs to another user";
}

/* Looks in a directory, and in the one that distributions keep for what is not for the dynamic
 * linker. Returns whether the file can be opened; otherwise what is said is about the first place.
 */
static bool find_in(struct search *search, const char *directory, const char *name)
{
    static const char *const below[] = {"", "/homefree"};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        struct search here = {.problem = "the name is too long"};
        if ((size_t)snprintf(here.path, sizeof here.path,
                             "%s%s/" HF_SATELLITE_SONAME "%s" HF_SATELLITE_ENDING, directory,
                             below[i], name) < sizeof here.path)
            examine(&here);
        if (search->path[0] == '\0' || here.problem == NULL)
            *search = here;
        if (here.problem == NULL)
            return true;
    }
    return false;
}

/* Looks next to this library, by the path that it was loaded with and by its real one. Both are
 * absolute, so changes of the working directory do not matter. */
static void find(struct search *search, const char *name)
{
    const struct link_map *self = hf_dynlink_find(&opened);
    char directory[PATH_MAX];
    search->path[0] = '\0';
    search->problem = "the directory of libhomefree is not known";
    /* glibc stores at most the length of a path that it could open. */
    if (self == NULL || (dlinfo((void *)(uintptr_t)self, RTLD_DI_ORIGIN, directory) == 0 &&
                         directory[0] == '/' && find_in(search, directory, name)))
        return;
    if (realpath(self->l_name, directory) != NULL) {
        *strrchr(directory, '/') = '\0';
        (void)find_in(search, directory, name);
    }
}

/* ---- opening ---- */

/* Whether nobody was told yet that this satellite is missing. */
static bool is_news(const struct hf_satellite *satellite)
{
    static const struct hf_satellite *told[SATELLITES_MAX];
    for (size_t i = 0; i < SATELLITES_MAX; i++) {
        const struct hf_satellite *seen = NULL;
        if (__atomic_compare_exchange_n(&told[i], &seen, satellite, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return true;
        if (seen == satellite)
            return false;
    }
    return false;
}

static void say(const struct hf_satellite *satellite, const char *path, const char *problem,
                char *why, size_t size)
{
    struct hf_text text;
    if (why == NULL && !is_news(satellite))
        return;
    hf_text_begin(&text);
    const size_t prefix = text.length;
    hf_text_add(&text, "cannot open ");
    hf_text_add(&text, path);
    hf_text_add(&text, ": ");
    hf_text_add(&text, problem);
    hf_text_add(&text,
                "; install all files of one build of homefree in one directory; the option -D");
    hf_text_add(&text, satellite->name);
    hf_text_add(&text, "=disabled leaves this one out of a build");
    if (why == NULL)
        hf_text_write(&text);
    else if (size > 0)
        (void)snprintf(why, size, "%.*s", (int)(text.length - prefix), text.bytes + prefix);
}

static const struct hf_satellite_entry *load(const char *path, const char **problem)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct hf_satellite_entry *entry =
        handle != NULL ? dlsym(handle, HF_SATELLITE_ENTRY) : NULL;
    *problem = NULL;
    if (entry == NULL)
        *problem = dlerror();
    else if (strncmp(entry->stamp, HF_BUILD_STAMP, sizeof entry->stamp) != 0)
        *problem = "it belongs to another build of homefree than libhomefree " HF_BUILD_STAMP;
    return *problem == NULL ? entry : NULL;
}

/* Returns false if the system does not let the table be written. */
static bool begin(struct hf_satellite *satellite, const struct hf_satellite_entry *entry)
{
    struct hf_seal seal;
    pthread_mutex_lock(&beginning);
    bool done = satellite->functions != NULL;
    if (!done) {
        hf_own_calls_bind_satellite(entry);
        const void *functions = entry->begin(satellite->core);
        done = hf_seal_open(&seal);
        if (done) {
            satellite->entry = entry;
            satellite->next = opened.first;
            opened.first = satellite;
            __atomic_store_n(&satellite->functions, functions, __ATOMIC_RELEASE);
            hf_seal_close(&seal);
        }
    }
    pthread_mutex_unlock(&beginning);
    return done;
}

const void *hf_satellite_open(struct hf_satellite *satellite, char *why, size_t size)
{
    const void *functions = hf_satellite_functions(satellite);
    struct search search;
    if (functions != NULL)
        return functions;
    const int saved_errno = errno;
    find(&search, satellite->name);
    const struct hf_satellite_entry *entry =
        search.problem == NULL ? load(search.path, &search.problem) : NULL;
    if (entry != NULL && !begin(satellite, entry))
        search.problem = "homefree's tables of functions cannot be written";
    if (search.problem != NULL)
        say(satellite, search.path, search.problem, why, size);
    errno = saved_errno;
    return hf_satellite_functions(satellite);
}

/* ---- fork ---- */

void hf_satellites_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    for (const struct hf_satellite *at = opened.first; at != NULL; at = at->next)
        for (char *lock = at->entry->fork_locks; lock < at->entry->fork_locks_end;
             lock += HF_FORK_LOCK_SIZE)
            memcpy(lock, &fresh, sizeof fresh);
}
