/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See satellite.h. Owns the list of open satellites, whose head and members are sealed, where this
 * library lies, which its start writes once, and the lock under which a satellite begins; below it,
 * the seal's lock alone is taken.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SATELLITES_MAX = 8 };

static HF_SEALED_UNION(struct hf_satellite *, first) opened HF_SEALED;
static pthread_mutex_t HF_FORK_LOCK beginning = PTHREAD_MUTEX_INITIALIZER;

/* ---- the directory ---- */

/* As it was when this library was loaded: later the working directory, the root or the name may be
 * others'. */
static struct {
    const char *path; /* this library's, absolute; NULL: unknown */
    uid_t owner;      /* of its file */
    dev_t device;     /* of its directory */
    ino_t directory;
} home;

/* The directory of an absolute path, without its last slash. False if it is too long. */
static bool directory_of(const char *path, char directory[PATH_MAX])
{
    const size_t length = (size_t)(strrchr(path, '/') - path);
    if (length >= PATH_MAX)
        return false;
    memcpy(directory, path, length);
    directory[length] = '\0';
    return true;
}

static bool stat_directory(const char *directory, struct stat *out)
{
    return stat(directory[0] != '\0' ? directory : "/", out) == 0;
}

void hf_satellites_start(void)
{
    static char path[PATH_MAX];
    const int saved_errno = errno;
    const struct link_map *self = hf_dynlink_find(&opened);
    const char *name = self != NULL ? self->l_name : "";
    const bool known = name[0] == '/' ? memccpy(path, name, '\0', sizeof path) != NULL
                                      : name[0] != '\0' && realpath(name, path) != NULL;
    struct stat file, directory;
    if (known && stat(path, &file) == 0) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        if (stat_directory(path, &directory)) {
            home.path = path;
            home.owner = file.st_uid;
            home.device = directory.st_dev;
            home.directory = directory.st_ino;
        }
        *slash = '/';
    }
    errno = saved_errno;
}

static bool is_still_home(const char *directory)
{
    struct stat now;
    return stat_directory(directory, &now) && now.st_dev == home.device &&
           now.st_ino == home.directory;
}

/* ---- the file ---- */

/* Too large for small stacks, and so in pages of its own. */
struct search {
    char path[PATH_MAX];
    char tried[PATH_MAX];
    char directory[PATH_MAX];
    char real[PATH_MAX];
    const char *problem; /* NULL: the file can be opened */
};

/* Why the file cannot be opened; NULL: it can. Where everybody may make files, as in /tmp, a file
 * of that name may be anybody's. */
static const char *problem_of(const char *path)
{
    struct stat file;
    if (lstat(path, &file) != 0)
        return strerror(errno);
    if (!S_ISREG(file.st_mode)) /* opening a pipe would wait for its writer; a link may change */
        return "it is not a regular file";
    if (file.st_uid != 0 && file.st_uid != geteuid() && file.st_uid != home.owner)
        return "the file belongs to another user";
    return strchr(path, '$') == NULL ? NULL : "the dynamic linker would replace the $ in its name";
}

/* Looks in a directory, and in the one that distributions keep for what is not for the dynamic
 * linker. Returns whether the file can be opened; otherwise what is said is about the first place.
 */
static bool find_in(struct search *search, const char *directory, const char *name)
{
    static const char *const below[] = {"", "/homefree"};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        const int length = snprintf(search->tried, sizeof search->tried,
                                    "%s%s/" HF_SATELLITE_SONAME "%s" HF_SATELLITE_ENDING, directory,
                                    below[i], name);
        const char *problem = (size_t)length < sizeof search->tried ? problem_of(search->tried)
                                                                    : "the name is too long";
        if (search->path[0] == '\0' || problem == NULL) {
            memcpy(search->path, search->tried, sizeof search->path);
            search->problem = problem;
        }
        if (problem == NULL)
            return true;
    }
    return false;
}

/* Looks next to this library, by the path that it was loaded with and by its real one. */
static void find(struct search *search, const char *name)
{
    search->problem = "the directory of libhomefree is not known";
    if (home.path == NULL || !directory_of(home.path, search->directory))
        return;
    if (!is_still_home(search->directory)) {
        (void)find_in(search, search->directory, name); /* for the path that is told */
        search->problem = "its directory is not the one that libhomefree was loaded from";
    } else if (!find_in(search, search->directory, name) &&
               realpath(home.path, search->real) != NULL &&
               directory_of(search->real, search->directory)) {
        (void)find_in(search, search->directory, name);
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
    if (path[0] != '/')
        hf_text_say(&text, HF_SATELLITE_SONAME "%s" HF_SATELLITE_ENDING, satellite->name);
    hf_text_say(&text,
                "%s: %s; install all files of one build of homefree in one directory; the "
                "option -D%s=disabled leaves this one out of a build",
                path, problem, satellite->name);
    if (why == NULL)
        hf_text_write(&text);
    else if (size > 0)
        (void)snprintf(why, size, "%.*s", (int)(text.length - prefix), text.bytes + prefix);
}

/* In a child that was forked while another thread opened the file, the dynamic linker may take it
 * for loaded: then its pointers were not relocated. */
static bool is_whole(const struct hf_satellite_entry *entry)
{
    return hf_dynlink_find((const void *)entry->begin) == hf_dynlink_find(entry);
}

static const struct hf_satellite_entry *load(const char *path, const char *name,
                                             const char **problem)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct hf_satellite_entry *entry =
        handle != NULL ? dlsym(handle, HF_SATELLITE_ENTRY) : NULL;
    *problem = NULL;
    if (entry == NULL)
        *problem = dlerror();
    else if (strncmp(entry->stamp, HF_BUILD_STAMP, sizeof entry->stamp) != 0)
        *problem = "it belongs to another build of homefree than libhomefree " HF_BUILD_STAMP
                   ", as after an upgrade: start the process again";
    else if (strncmp(entry->name, name, sizeof entry->name) != 0)
        *problem = "it is another satellite under this name";
    else if (!is_whole(entry))
        *problem = "the process was forked while another thread opened it";
    return *problem == NULL ? entry : NULL;
}

static bool is_listed(const struct hf_satellite *satellite)
{
    const struct hf_satellite *at = opened.first;
    while (at != NULL && at != satellite)
        at = at->next;
    return at != NULL;
}

/* Returns false if the system does not let the tables be written. */
static bool begin(struct hf_satellite *satellite, const struct hf_satellite_entry *entry)
{
    struct hf_seal seal;
    hf_own_calls_bind_satellite(entry); /* may ask for the dynamic linker's lock */
    pthread_mutex_lock(&beginning);
    bool done = satellite->functions != NULL;
    if (!done) {
        const void *functions = entry->begin(satellite->core);
        done = functions != NULL && hf_seal_open(&seal);
        if (done) {
            if (!is_listed(satellite)) { /* else this was forked in the middle */
                satellite->entry = entry;
                satellite->next = opened.first;
                __atomic_store_n(&opened.first, satellite, __ATOMIC_RELEASE);
            }
            __atomic_store_n(&satellite->functions, functions, __ATOMIC_RELEASE);
            hf_seal_close(&seal);
        }
    }
    pthread_mutex_unlock(&beginning);
    return done;
}

static void open_file(struct hf_satellite *satellite, struct search *search, char *why, size_t size)
{
    find(search, satellite->name);
    const struct hf_satellite_entry *entry =
        search->problem == NULL ? load(search->path, satellite->name, &search->problem) : NULL;
    if (entry != NULL && !begin(satellite, entry))
        search->problem = "homefree's tables of functions cannot be written";
    if (search->problem != NULL)
        say(satellite, search->path, search->problem, why, size);
}

const void *hf_satellite_open(struct hf_satellite *satellite, char *why, size_t size)
{
    const void *functions = hf_satellite_functions(satellite);
    if (functions != NULL)
        return functions;
    const int saved_errno = errno;
    struct search *search =
        mmap(NULL, sizeof *search, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (search != MAP_FAILED) {
        open_file(satellite, search, why, size);
        munmap(search, sizeof *search);
    } else {
        say(satellite, "", strerror(errno), why, size);
    }
    errno = saved_errno;
    return hf_satellite_functions(satellite);
}

/* ---- fork ---- */

void hf_satellites_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    for (const struct hf_satellite *at = __atomic_load_n(&opened.first, __ATOMIC_ACQUIRE);
         at != NULL; at = at->next)
        for (char *lock = at->entry->fork_locks; lock < at->entry->fork_locks_end;
             lock += HF_FORK_LOCK_SIZE)
            memcpy(lock, &fresh, sizeof fresh);
}
