/*
 * hf_adopt_file() (homefree/adopt.h). Owns nothing but the handles of libraries that it loaded,
 * which are never closed because their users never say so. Takes no lock of its own.
 */
#include <homefree/adopt.h>

#include "alloc/base/dynlink.h"
#include "alloc/base/options.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "loader/adopt/adopted_cache.h"
#include "loader/adopt/adopted_file.h"
#include "loader/elf/elf_names.h"
#include "loader/hidden/plan.h"
#include "loader/interpose/route.h"
#include "loader/private/needed.h"
#include "loader/private/private_copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Part of every key: copies that an older homefree wrote in another way are made anew. */
#define REVISION 4

enum { LIBRARIES_MAX = 256 };

/* The state of one call. */
struct adopting {
    char why[512];
    char *seen[LIBRARIES_MAX]; /* absolute paths of the libraries that were looked at */
    size_t seen_count;
};

/* One file. */
struct subject {
    struct adopting *adopting;
    const char *original; /* absolute path */
    struct hf_elf elf, debug;
    bool has_debug;
    uint64_t key[2];
    const char *library; /* libhomefree's soname */
};

static int fail(struct adopting *adopting, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct adopting *adopting, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(adopting->why, sizeof adopting->why, format, arguments);
    va_end(arguments);
    return error;
}

/* ---- the key -------------------------------------------------------------------------------- */

/* FNV-1a, twice; keys only have to differ by chance. */
static void mix(uint64_t key[2], unsigned char byte)
{
    key[0] = (key[0] ^ byte) * 0x100000001b3;
    key[1] = (key[1] ^ byte) * 0x10000000233;
}

static void mix_number(uint64_t key[2], uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        mix(key, (unsigned char)(number >> shift));
}

static void mix_text(uint64_t key[2], const char *text)
{
    for (; *text != '\0'; text++)
        mix(key, (unsigned char)*text);
    mix(key, 0);
}

static void make_key(struct subject *subject, const struct stat *status)
{
    subject->key[0] = 0xcbf29ce484222325;
    subject->key[1] = 0x6c62272e07bb0142;
    mix_number(subject->key, REVISION);
    mix_number(subject->key, (uint64_t)status->st_dev);
    mix_number(subject->key, (uint64_t)status->st_ino);
    mix_number(subject->key, (uint64_t)status->st_size);
    mix_number(subject->key, (uint64_t)status->st_mtim.tv_sec);
    mix_number(subject->key, (uint64_t)status->st_mtim.tv_nsec);
    mix_number(subject->key, (uint64_t)status->st_ctim.tv_sec);
    mix_number(subject->key, (uint64_t)status->st_ctim.tv_nsec);
    mix_text(subject->key, subject->original);
    mix_text(subject->key, subject->library);
}

/* This library's name, by which the copy asks for it. */
static const char *own_name(void)
{
    struct hf_object object;
    const struct link_map *map = hf_dynlink_find(&hf_region);
    return map != NULL && hf_dynlink_open(map, &object) ? object.soname : NULL;
}

/* ---- making a copy -------------------------------------------------------------------------- */

static bool find_name(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    (void)pattern;
    *(bool *)context |= symbol->defined && symbol->type == STT_FUNC;
    return !*(bool *)context;
}

/* Whether symbols name an allocator's functions; opens the debug file if the object has none.
 * Result: 1, 0 or a negative errno. */
static int has_allocator(struct subject *subject)
{
    struct hf_names names;
    char buffer[PATH_MAX];
    bool found = false;
    if (hf_names_prepare(&names, hf_allocator_patterns, hf_allocator_patterns_count) != 0)
        return -E2BIG;
    int error = hf_names_visit(&names, &subject->elf, HF_ELF_DYNSYM, find_name, &found);
    if (error == 0 || error == -ENOENT)
        error = hf_names_visit(&names, &subject->elf, HF_ELF_SYMTAB, find_name, &found);
    if (error != -ENOENT || found)
        return error == 0 || error == -ENOENT ? found : error;
    subject->has_debug = hf_elf_open_debug(&subject->debug, &subject->elf, NULL) == 0 ||
                         hf_elf_open_debug_beside(&subject->debug, &subject->elf, subject->original,
                                                  buffer, sizeof buffer) == 0;
    if (subject->has_debug && !found)
        (void)hf_names_visit(&names, &subject->debug, HF_ELF_SYMTAB, find_name, &found);
    return found;
}

/* What writing a copy needs. */
struct writing {
    const struct hf_image *image;
    const struct hf_plan *plan;
    struct hf_adopted_facts facts;
    const char *why;
};

static int fill(int from, int to, void *context)
{
    struct writing *writing = context;
    const int error = hf_copy_bytes(from, to);
    return error != 0 ? error
                      : hf_adopted_write(to, writing->image, writing->plan, &writing->facts,
                                         &writing->why);
}

static int write_shared(struct subject *subject, struct hf_adopted_place *place,
                        struct writing *writing)
{
    const int from = hf_copy_open_original(subject->original);
    if (from < 0)
        return from;
    const int to = hf_adopted_place_create(place);
    int error = to < 0 ? to : fill(from, to, writing);
    if (to >= 0 && close(to) != 0 && error == 0)
        error = -errno;
    close(from);
    if (error == 0)
        error = hf_adopted_place_finish(place);
    if (error != 0)
        hf_adopted_place_abandon(place);
    return error;
}

/* In the cache, or else where private copies go. */
static int write_copy(struct subject *subject, const struct hf_image *image,
                      const struct hf_plan *plan, char path[PATH_MAX])
{
    struct adopting *adopting = subject->adopting;
    struct writing writing = {
        image,
        plan,
        {subject->library, subject->original, {subject->key[0], subject->key[1]}},
        NULL,
    };
    struct hf_adopted_place place;
    int error = hf_adopted_place_open(&place, subject->original, subject->key);
    if (error == 0) {
        error = write_shared(subject, &place, &writing);
        memcpy(path, place.path, PATH_MAX);
        hf_adopted_place_close(&place);
    }
    if (error != 0 && writing.why == NULL)
        error = hf_copy_place(subject->original, path, fill, &writing);
    return error == 0 || writing.why == NULL ? error : fail(adopting, error, "%s", writing.why);
}

static int make_copy(struct subject *subject, char path[PATH_MAX])
{
    struct adopting *adopting = subject->adopting;
    struct hf_image image;
    struct hf_functions functions = {0};
    struct hf_plan plan = {0};
    int error = hf_image_open(&image, &subject->elf);
    if (error == 0)
        error = hf_functions_open(&functions, &image, subject->has_debug ? &subject->debug : NULL);
    if (error != 0 && subject->elf.why != NULL)
        (void)fail(adopting, error, "%s", subject->elf.why);
    if (error == 0) {
        error = hf_plan_make(&plan, &image, &functions);
        if (error == -ENOENT)
            error = fail(adopting, -ENOTSUP,
                         "the entry points of its allocator have no names; a debug file would have "
                         "them");
        else if (error != 0 && plan.why[0] != '\0')
            (void)fail(adopting, error, "%s", plan.why);
    }
    if (error == 0)
        error = write_copy(subject, &image, &plan, path);
    hf_plan_close(&plan);
    hf_functions_close(&functions);
    hf_image_close(&image);
    return error;
}

/* ---- libraries ------------------------------------------------------------------------------ */

static int adopt(struct adopting *adopting, const char *original, char path[PATH_MAX],
                 unsigned depth);

static bool note_seen(struct adopting *adopting, const char *path)
{
    for (size_t i = 0; i < adopting->seen_count; i++)
        if (strcmp(adopting->seen[i], path) == 0)
            return false;
    if (adopting->seen_count == LIBRARIES_MAX)
        return false;
    char *kept = strdup(path);
    if (kept == NULL)
        return false;
    adopting->seen[adopting->seen_count++] = kept;
    return true;
}

static int load_needed(struct adopting *adopting, const char *path, const char *name)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        return fail(adopting, -ENOEXEC, "%s", reason != NULL ? reason : path);
    }
    if (dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != NULL)
        return 0;
    dlclose(handle);
    return fail(adopting, -ENOTSUP,
                "%s has no soname, and its copy no room for one; link it with -Wl,-soname,%s", name,
                name);
}

/* Loads the copies of needed libraries that have an allocator. What needs them finds them by their
 * soname. */
static int adopt_needed(struct subject *subject, unsigned depth)
{
    enum { DEPTH_MAX = 32 };
    struct adopting *adopting = subject->adopting;
    char folder[PATH_MAX], file[PATH_MAX], path[PATH_MAX];
    const size_t length = (size_t)(strrchr(subject->original, '/') - subject->original);
    memcpy(folder, subject->original, length);
    folder[length] = '\0';
    int error = 0;
    const char *name;
    for (size_t cursor = 0; error >= 0 && (name = hf_elf_needed(&subject->elf, &cursor)) != NULL;) {
        if (depth == DEPTH_MAX || !hf_needed_find(&subject->elf, folder, name, file) ||
            !note_seen(adopting, file))
            continue;
        error = adopt(adopting, file, path, depth + 1);
        if (error < 0 && adopting->why[0] == '\0')
            (void)fail(adopting, error, "%s: %s", name, strerror(-error));
        if (error > 0)
            error = load_needed(adopting, path, name);
    }
    return error < 0 ? error : 0;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* Whether the dynamic linker has loaded that very file. */
static bool is_loaded(const char *path)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}

/* A copy of this file that is there already: true, with its path. */
static bool find_copy(const struct subject *subject, char path[PATH_MAX])
{
    struct hf_adopted_place place;
    if (hf_adopted_place_open(&place, subject->original, subject->key) != 0)
        return false;
    const bool has = hf_adopted_place_has(&place, subject->original, subject->key);
    memcpy(path, place.path, PATH_MAX);
    hf_adopted_place_close(&place);
    return has;
}

static int adopt_opened(struct subject *subject, char path[PATH_MAX], unsigned depth)
{
    struct adopting *adopting = subject->adopting;
    int error = adopt_needed(subject, depth);
    if (error != 0)
        return error;
    const bool cached = find_copy(subject, path);
    const int has = cached ? 1 : has_allocator(subject);
    if (has < 0 && subject->elf.why != NULL)
        return fail(adopting, has, "%s", subject->elf.why);
    if (has <= 0) {
        memcpy(path, subject->original, strlen(subject->original) + 1);
        return has;
    }
    if (is_loaded(subject->original))
        return fail(adopting, -EBUSY,
                    "%s is loaded already, with an allocator of its own; load it through homefree "
                    "before anything else does",
                    subject->original);
    if (!cached)
        error = make_copy(subject, path);
    if (error != 0 && depth != 0 && adopting->why[0] != '\0') {
        char why[sizeof adopting->why];
        memcpy(why, adopting->why, sizeof why);
        (void)fail(adopting, error, "%.200s: %.300s", strrchr(subject->original, '/') + 1, why);
    }
    return error != 0 ? error : 1;
}

static int adopt(struct adopting *adopting, const char *original, char path[PATH_MAX],
                 unsigned depth)
{
    struct subject subject = {.adopting = adopting, .original = original, .library = own_name()};
    struct stat status = {0};
    if (subject.library == NULL)
        return -ENOTSUP;
    const int file = hf_copy_open_original(original);
    if (file < 0)
        return file;
    int error = fstat(file, &status) != 0 ? -errno : hf_elf_open_descriptor(&subject.elf, file);
    close(file);
    if (error != 0) {
        if (subject.elf.why != NULL)
            (void)fail(adopting, error, "%s", subject.elf.why);
        return error;
    }
    make_key(&subject, &status);
    error = adopt_opened(&subject, path, depth);
    if (subject.has_debug)
        hf_elf_close(&subject.debug);
    hf_elf_close(&subject.elf);
    return error;
}

int hf_adopt_file(const char *path, char *out, size_t size)
{
    char original[PATH_MAX], copy[PATH_MAX];
    hf_heap_start();
    if (out == NULL || size == 0)
        return -EINVAL;
    out[0] = '\0';
    struct adopting adopting = {.why = ""};
    int result = hf_copy_absolute(path, original);
    if (result == 0 && !hf_options.route)
        result = fail(&adopting, -EPERM, "routing is off (HOMEFREE_CONF=route:off)");
    else if (result == 0)
        result = adopt(&adopting, original, copy, 0);
    if (result >= 0 && strlen(copy) >= size)
        result = -ENAMETOOLONG;
    const char *text = result >= 0               ? copy
                       : adopting.why[0] != '\0' ? adopting.why
                                                 : strerror(-result);
    snprintf(out, size, "%s", text);
    for (size_t i = 0; i < adopting.seen_count; i++)
        free(adopting.seen[i]);
    hf_route_new_objects();
    return result;
}
