/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of copies that this process has made. Entries are added without a lock, by an
 * atomic exchange of the head, and never freed; removed copies are only flagged.
 *
 * When: copies are made as by any caller of libc and the loader, so not while slots change and not
 * under the loader's lock. Files are removed when the process exits normally; after any other end,
 * by the next process that makes copies in the same directory.
 */
#include "satellites/adopt/private/private_copy.h"

#include "loader/elf/origin.h"
#include "loader/interpose/route.h"
#include "satellites/adopt/private/copy_bytes.h"
#include "satellites/adopt/private/outside.h"
#include "satellites/adopt/private/patch_copy.h"
#include "satellites/adopt/private/place_copy.h"
#include "satellites/adopt/private/shared_pages.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <homefree/libc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
    struct copy *next;
    pid_t maker;
    atomic_bool removed;
    bool beside;
    struct stat status; /* the original's, when it was copied */
    char *original;
    char *directory; /* the original's */
    char path[];     /* the copy's */
};

static _Atomic(struct copy *) copies;

typedef int filler(int from, int to, void *context);

/* Makes the copy in one place. */
static int copy_to(int from, const char *original, int place, filler *fill, void *context,
                   char path[PATH_MAX])
{
    int to = hf_copy_create(original, place, path);
    if (to < 0)
        return to;
    int error = lseek(from, 0, SEEK_SET) == 0 ? fill(from, to, context) : -errno;
    if (close(to) != 0 && error == 0)
        error = -errno;
    if (error != 0)
        (void)hf_copy_remove(path, getpid());
    return error;
}

/* Returns whether another place may succeed after this error. */
static bool is_of_the_place(int error)
{
    switch (-error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOSPC:
    case EDQUOT:
    case ENOENT:
    case ENAMETOOLONG:
    case ENOTDIR:
        return true;
    default:
        return false;
    }
}

static int add(const char *path, const char *original, const struct stat *status, bool beside)
{
    size_t length = strlen(path) + 1;
    struct copy *copy = hf_malloc(sizeof *copy + length);
    char *kept = hf_strdup(original), *directory = hf_strdup(original);
    if (copy == NULL || kept == NULL || directory == NULL) {
        hf_free(copy);
        hf_free(kept);
        hf_free(directory);
        return -ENOMEM;
    }
    *strrchr(directory, '/') = '\0';
    *copy = (struct copy){.maker = getpid(),
                          .beside = beside,
                          .status = *status,
                          .original = kept,
                          .directory = directory};
    memcpy(copy->path, path, length);
    copy->next = atomic_load(&copies);
    while (!atomic_compare_exchange_weak(&copies, &copy->next, copy))
        ;
    return 0;
}

int hf_copy_place(const char *original, char path[PATH_MAX], filler *fill, void *context)
{
    struct stat status;
    int from = hf_copy_open_original(original);
    if (from < 0)
        return from;
    if (fstat(from, &status) != 0)
        status = (struct stat){0};
    /* Errors caused by the file itself are the same in every place. */
    int error = -ENOENT, first_error = 0;
    for (int place = 0; place < HF_COPY_PLACES; place++) {
        error = copy_to(from, original, place, fill, context, path);
        if (error == 0) {
            error = add(path, original, &status, place == 0);
            if (error != 0)
                (void)hf_copy_remove(path, getpid());
            first_error = error;
            break;
        }
        /* A full place is a better reason than a missing one. */
        if (first_error == 0 || first_error == -ENOENT || error == -ENOSPC)
            first_error = error;
        if (!is_of_the_place(error))
            break;
    }
    close(from);
    return first_error;
}

static int fill_private(int from, int to, void *original)
{
    char directory[PATH_MAX];
    const size_t length = (size_t)(strrchr(original, '/') - (char *)original);
    memcpy(directory, original, length);
    directory[length] = '\0';
    const int error = hf_copy_bytes(from, to);
    return error != 0 ? error : hf_copy_patch(to, directory);
}

static int make(const char *path, char *out, size_t size)
{
    char original[PATH_MAX], copy[PATH_MAX];
    if (out == NULL)
        return -EINVAL;
    int error = hf_origin_absolute(path, original);
    if (error != 0)
        return error;
    error = hf_copy_place(original, copy, fill_private, original);
    if (error == 0 && strlen(copy) >= size) {
        (void)hf_private_copy_remove(copy);
        error = -ENAMETOOLONG;
    }
    if (error == 0)
        memcpy(out, copy, strlen(copy) + 1);
    hf_route_new_objects(); /* needed libraries were loaded */
    hf_outside_expect();
    return error;
}

/* Like dlopen(), it is no cancellation point, though it reads and writes files under locks. */
int hf_private_copy_make(const char *path, char *out, size_t size)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const int result = make(path, out, size);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}

/* If the file cannot be removed now, a later call or the end of the process tries again. */
static int remove_file(struct copy *copy, bool shares)
{
    if (atomic_exchange(&copy->removed, true))
        return 0;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (shares)
        hf_copy_share(copy->path, copy->original, &copy->status);
    const int error = hf_copy_remove(copy->path, copy->maker);
    pthread_setcancelstate(cancel_state, NULL);
    if (error != 0)
        atomic_store(&copy->removed, false);
    return error;
}

int hf_private_copy_remove(const char *path)
{
    if (path == NULL)
        return -EINVAL;
    for (struct copy *copy = atomic_load(&copies); copy != NULL; copy = copy->next)
        if (strcmp(copy->path, path) == 0)
            return remove_file(copy, true);
    return -ENOENT;
}

const char *hf_copy_directory(const struct link_map *map)
{
    const struct copy *copy = atomic_load_explicit(&copies, memory_order_acquire);
    for (; copy != NULL; copy = copy->next)
        if (!copy->beside && strcmp(copy->path, hf_dynlink_name(map)) == 0)
            return copy->directory;
    return NULL;
}

__attribute__((destructor)) static void remove_all(void)
{
    for (struct copy *copy = atomic_load(&copies); copy != NULL; copy = copy->next)
        (void)remove_file(copy, false);
}
