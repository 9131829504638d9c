/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Determines which needed libraries are used and how much static TLS all of them take. Each library
 * is searched for where the dynamic linker would look (DT_RPATH, DT_RUNPATH with $ORIGIN,
 * /etc/ld.so.cache, the standard directories) and is used if it defines a name that the object
 * imports. LD_LIBRARY_PATH is ignored, so that the result does not depend on the caller's
 * environment.
 *
 * Owns: the set of names, and the contents of the cache file during a search. Nothing is guessed: a
 * library that is not found stays unknown. One thread for each inspection.
 */
#include "loader/inspect/inspect_parts.h"

#include "loader/elf/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__aarch64__)
#    define MULTIARCH      "aarch64-linux-gnu"
#    define CACHE_MACHINE  0x0a03 /* FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6 (glibc, ldconfig.h) */
#    define NATIVE_MACHINE EM_AARCH64
#else
#    define MULTIARCH      "x86_64-linux-gnu"
#    define CACHE_MACHINE  0x0303 /* FLAG_X8664_LIB64 | FLAG_ELF_LIBC6 */
#    define NATIVE_MACHINE EM_X86_64
#endif

enum { PATH_LONGEST = 4096, CACHE_LARGEST = 64 * 1024 * 1024, SEARCHED_MAX = 64 };

/* ---- names ---------------------------------------------------------------------------------- */

/* FNV-1a. Returns false if the name is too long. */
static bool hash_name(const char *name, size_t *out)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; name[i] != '\0'; i++) {
        if (i == HF_INSPECTION_STRING_MAX)
            return false;
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    }
    *out = (size_t)(hash ^ hash >> 32);
    return true;
}

static size_t find_slot(const struct hf_name_set *set, const char *name, size_t hash)
{
    size_t at = hash & (set->capacity - 1);
    while (set->slots[at] != NULL && strcmp(set->slots[at], name) != 0)
        at = (at + 1) & (set->capacity - 1);
    return at;
}

static int grow(struct hf_name_set *set)
{
    struct hf_name_set larger = {.capacity = set->capacity == 0 ? 256 : set->capacity * 2};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < set->capacity; i++) {
        size_t hash;
        if (set->slots[i] != NULL && hash_name(set->slots[i], &hash))
            larger.slots[find_slot(&larger, set->slots[i], hash)] = set->slots[i];
    }
    larger.count = set->count;
    free(set->slots);
    *set = larger;
    return 0;
}

int hf_name_set_add(struct hf_name_set *set, const char *name)
{
    size_t hash;
    if (!hash_name(name, &hash))
        return 0;
    if (set->count >= set->capacity / 2) {
        const int result = grow(set);
        if (result != 0)
            return result;
    }
    const size_t at = find_slot(set, name, hash);
    if (set->slots[at] == NULL) {
        set->slots[at] = name;
        set->count++;
    }
    return 0;
}

bool hf_name_set_has(const struct hf_name_set *set, const char *name)
{
    size_t hash;
    return set->count != 0 && hash_name(name, &hash) &&
           set->slots[find_slot(set, name, hash)] != NULL;
}

void hf_name_set_free(struct hf_name_set *set)
{
    free(set->slots);
    memset(set, 0, sizeof *set);
}

/* ---- the cache of ldconfig ------------------------------------------------------------------ */

/* glibc, sysdeps/generic/dl-cache.h: struct cache_file_new. */
struct cache_header {
    char magic[20]; /* "glibc-ld.so.cache1.1" */
    uint32_t count, strings_size;
    uint32_t more[5];
};
struct cache_entry {
    uint32_t flags, key, value, version; /* key, value: offsets of the name and the path */
    uint64_t hardware;
};

struct cache {
    bool tried;
    char *data; /* with a zero byte after it */
    size_t size;
};

static void read_cache(struct cache *cache, const struct hf_inspection_files *files)
{
    static const char path[] = "/etc/ld.so.cache";
    enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK };
    if (cache->tried)
        return;
    cache->tried = true;
    const int descriptor = files != NULL && files->in_root
                               ? hf_open_in_root(files->root, path, FLAGS)
                               : open(path, FLAGS);
    if (descriptor < 0)
        return;
    struct stat status;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size >= (off_t)sizeof(struct cache_header) && status.st_size <= CACHE_LARGEST)
        cache->data = calloc(1, (size_t)status.st_size + 1);
    while (cache->data != NULL && cache->size < (size_t)status.st_size) {
        const ssize_t got = pread(descriptor, cache->data + cache->size,
                                  (size_t)status.st_size - cache->size, (off_t)cache->size);
        if (got <= 0)
            break;
        cache->size += (size_t)got;
    }
    close(descriptor);
}

/* ---- the search ----------------------------------------------------------------------------- */

struct search {
    struct hf_elf *elf;  /* the object */
    const char *runpath; /* of the object that needs the library, or its RPATH; NULL: neither */
    struct hf_inspection *inspection;
    const struct hf_name_set *names;
    struct cache cache;
    char origin[PATH_LONGEST]; /* the directory of the object that needs it; "" if unknown */
    const char *name;          /* the library that is searched for */
    bool (*take)(struct search *search, struct hf_elf *elf, const char *path);
    struct hf_inspection_library *library; /* for take_library() */
    struct closure *closure;               /* NULL: out of memory */
};

/* Returns a library's path, or NULL. Every entry for special hardware is accompanied by one for all
 * hardware. */
static const char *find_in_cache(struct search *search, const char *name)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    struct cache *cache = &search->cache;
    struct cache_header header;
    read_cache(cache, search->inspection->files);
    if (cache->data == NULL || cache->size < sizeof header)
        return NULL;
    memcpy(&header, cache->data, sizeof header);
    if (memcmp(header.magic, magic, sizeof header.magic) != 0 ||
        header.count > (cache->size - sizeof header) / sizeof(struct cache_entry))
        return NULL;
    for (size_t i = 0; i < header.count; i++) {
        struct cache_entry entry;
        memcpy(&entry, cache->data + sizeof header + i * sizeof entry, sizeof entry);
        if (entry.flags == CACHE_MACHINE && entry.key < cache->size && entry.value < cache->size &&
            strcmp(cache->data + entry.key, name) == 0)
            return cache->data + entry.value;
    }
    return NULL;
}

struct look {
    const struct hf_name_set *names;
    bool found;
};

static bool look_for_use(const struct hf_elf_symbol *symbol, void *context)
{
    struct look *look = context;
    look->found = symbol->defined && symbol->binding != STB_LOCAL &&
                  hf_name_set_has(look->names, symbol->name);
    return !look->found;
}

/* Resolves "", "." and ".." in a path below HF_INSPECTION_ROOT, in place; there is nothing above
 * the root. */
static void normalize(char *path)
{
    char *const root = path + sizeof HF_INSPECTION_ROOT - 1;
    char *end = root;
    for (const char *at = root; *at != '\0';) {
        const size_t length = strcspn(at, "/");
        if (length == 2 && at[0] == '.' && at[1] == '.') {
            while (end > root && *--end != '/')
                continue;
        } else if (length > 0 && (length > 1 || at[0] != '.')) {
            if (end > root)
                *end++ = '/';
            memmove(end, at, length);
            end += length;
        }
        at += at[length] == '/' ? length + 1 : length;
    }
    *end = '\0';
}

/* Whether a path is below HF_INSPECTION_ROOT. */
static bool is_inside(const struct search *search, const char *path)
{
    static const char root[] = HF_INSPECTION_ROOT;
    const struct hf_inspection_files *files = search->inspection->files;
    return files != NULL && files->open != NULL && strncmp(path, root, sizeof root - 1) == 0;
}

/* Keeps the path of what was read, or was missed. */
static void keep_path(struct hf_inspection *inspection, const char **paths, size_t *count,
                      const char *path)
{
    const char *copy =
        paths != NULL && *count < HF_INSPECTION_PATHS_MAX && strlen(path) < HF_INSPECTION_STRING_MAX
            ? hf_inspection_copy(inspection, path)
            : NULL;
    if (copy != NULL)
        paths[(*count)++] = copy;
    else
        inspection->read_all = false;
}

/* Tries one file. Returns false if it does not exist or is not a library for the same machine. */
static bool try_file(struct search *search, const char *path)
{
    const struct hf_inspection_files *files = search->inspection->files;
    struct hf_elf elf = {.descriptor = -1};
    char inside[PATH_LONGEST];
    if (is_inside(search, path) && strlen(path) < sizeof inside) {
        memcpy(inside, path, strlen(path) + 1);
        normalize(inside);
        path = inside;
    }
    const int opened = hf_inspection_open(&elf, path, files);
    const bool right = opened == 0 && elf.header.e_machine == search->elf->header.e_machine &&
                       elf.header.e_type == ET_DYN && search->take(search, &elf, path);
    /* What is known of the library is incomplete, and so is what is known of the object. */
    if (search->elf->trouble == 0)
        search->elf->trouble = elf.trouble;
    hf_elf_close(&elf);
    if (right)
        keep_path(search->inspection, search->inspection->read, &search->inspection->read_count,
                  path);
    else
        keep_path(search->inspection, search->inspection->missed, &search->inspection->missed_count,
                  path);
    return right;
}

static bool append(char *path, size_t *length, const char *text, size_t size)
{
    if (size >= PATH_LONGEST - *length)
        return false;
    memcpy(path + *length, text, size);
    *length += size;
    path[*length] = '\0';
    return true;
}

/* Tries one directory of a RUNPATH: `size` bytes, which may contain $ORIGIN. Relative directories,
 * and those that contain another of the linker's variables, are skipped. */
static bool try_directory(struct search *search, const char *directory, size_t size)
{
    char path[PATH_LONGEST];
    const struct hf_origin_use use = hf_origin_look(directory, size);
    if (use.others || (use.origin && search->origin[0] == '\0'))
        return false;
    const int length = hf_origin_expand(directory, size, search->origin, path, sizeof path);
    size_t end = (size_t)length;
    return length > 0 && path[0] == '/' && append(path, &end, "/", 1) &&
           append(path, &end, search->name, strlen(search->name)) && try_file(search, path);
}

static bool try_directories(struct search *search, const char *list)
{
    /* Without a limit, a hostile list as long as the file would be walked for each library. */
    for (size_t count = 0; list != NULL && count < SEARCHED_MAX; count++) {
        const size_t size = strnlen(list, PATH_LONGEST);
        if (size == PATH_LONGEST)
            return false;
        const size_t part = strcspn(list, ":");
        if (try_directory(search, list, part))
            return true;
        list = list[part] == ':' ? list + part + 1 : NULL;
    }
    return false;
}

static bool find_file(struct search *search, const char *name)
{
    static const char standard[] =
        "/lib/" MULTIARCH ":/usr/lib/" MULTIARCH ":/lib64:/usr/lib64:/lib:/usr/lib";
    search->name = name;
    if (name[0] == '\0')
        return false;
    if (strchr(name, '/') != NULL)
        return name[0] == '/' && try_file(search, name);
    if (try_directories(search, search->runpath))
        return true;
    /* The cache and the standard directories are this machine's. */
    if (search->elf->header.e_machine != NATIVE_MACHINE)
        return false;
    const char *cached = find_in_cache(search, name);
    return (cached != NULL && try_file(search, cached)) || try_directories(search, standard);
}

/* Sets $ORIGIN to the directory of the path. As in the dynamic linker, a symbolic link to the file
 * itself is not resolved. */
static void find_origin(struct search *search, const char *path)
{
    const char *slash = strrchr(path, '/');
    const struct hf_inspection_files *files = search->inspection->files;
    search->origin[0] = '\0';
    if (is_inside(search, path) || (files != NULL && files->in_root)) {
        size_t length = 0;
        append(search->origin, &length, path, (size_t)(slash - path) + 1);
        return;
    }
    char *directory = slash == NULL   ? strdup(".")
                      : slash == path ? strdup("/")
                                      : strndup(path, (size_t)(slash - path));
    char *real = directory != NULL ? realpath(directory, NULL) : NULL;
    if (real != NULL && strlen(real) < sizeof search->origin)
        memcpy(search->origin, real, strlen(real) + 1);
    free(real);
    free(directory);
}

/* ---- static TLS of all libraries ------------------------------------------------------------- */

/* At most this many of the nearest libraries: each costs several system calls. */
enum { CLOSURE_MAX = 64, NEEDED_NAMES = 4096, NAME_LONGEST = 256, STRINGS_AT_ONCE = PATH_LONGEST };

/* The libraries that are loaded with the object: those that it needs, those that these need, and so
 * on. Libraries are identified by the name under which they are needed, which is what the dynamic
 * linker compares first. */
struct closure {
    struct {
        const char *name, *path, *runpath; /* owned by the inspection; runpath may be NULL */
        const char *needed;                /* zero-terminated names; an empty one ends them */
    } members[CLOSURE_MAX];
    size_t count;
    uint64_t largest;
};

/* Whether the library is in every process before any module is loaded. */
static bool is_always_there(const char *name)
{
    static const char *const starts[] = {"libc.so.",       "ld-linux",  "libm.so.",
                                         "libpthread.so.", "libdl.so.", "librt.so."};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* A window on the string table, as last read. Linkers place the names of needed libraries side by
 * side, and the whole table is large in a library with many symbols. */
struct strings {
    struct hf_elf *elf;
    uint64_t table, size; /* offset in the file; size 0: there is no table */
    uint64_t first;       /* index of the first byte in `bytes` */
    size_t count;
    char bytes[STRINGS_AT_ONCE];
};

static void begin_strings(struct strings *strings, struct hf_elf *elf)
{
    uint64_t address;
    strings->elf = elf;
    strings->first = strings->count = 0;
    if (!hf_elf_tag(elf, DT_STRTAB, &address) ||
        hf_elf_locate(elf, address, &strings->table, &strings->size) != 0)
        strings->size = 0;
}

/* Reads a string of the dynamic section, valid until the next one is read. Returns its length, or 0
 * if it is damaged, empty, or not shorter than `longest`. */
static size_t read_string(struct strings *strings, uint64_t index, size_t longest, const char **out)
{
    if (index >= strings->size)
        return 0;
    uint64_t at = index - strings->first;
    if (index < strings->first || at >= strings->count ||
        memchr(strings->bytes + at, '\0', strings->count - (size_t)at) == NULL) {
        const uint64_t rest = strings->size - index;
        strings->first = index;
        strings->count = rest < sizeof strings->bytes ? (size_t)rest : sizeof strings->bytes;
        at = 0;
        if (hf_elf_read(strings->elf, strings->table + index, strings->bytes, strings->count) != 0)
            strings->count = 0;
    }
    *out = strings->bytes + at;
    const size_t length = strnlen(*out, strings->count - (size_t)at);
    return length < strings->count - (size_t)at && length < longest ? length : 0;
}

static const char *copy_runpath(struct hf_inspection *inspection, struct strings *strings)
{
    const char *runpath;
    uint64_t index;
    if ((!hf_elf_tag(strings->elf, DT_RUNPATH, &index) &&
         !hf_elf_tag(strings->elf, DT_RPATH, &index)) ||
        read_string(strings, index, PATH_LONGEST, &runpath) == 0)
        return NULL;
    return hf_inspection_copy(inspection, runpath);
}

static const char *copy_needed(struct hf_inspection *inspection, struct strings *strings)
{
    char names[NEEDED_NAMES];
    const char *name;
    size_t at = 0;
    Elf64_Dyn entry;
    for (size_t i = 0;
         hf_elf_dynamic_entry(strings->elf, i, &entry) && at + NAME_LONGEST < sizeof names; i++) {
        const size_t length = entry.d_tag == DT_NEEDED
                                  ? read_string(strings, entry.d_un.d_val, NAME_LONGEST, &name)
                                  : 0;
        if (length != 0) {
            memcpy(names + at, name, length + 1);
            at += length + 1;
        }
    }
    char *copy = hf_inspection_allocate(inspection, at + 1);
    return copy != NULL ? memcpy(copy, names, at) : "";
}

/* Whether a library that is needed under this name has not been counted yet. */
static bool is_new_member(const struct closure *closure, const char *name)
{
    bool known = is_always_there(name) || closure->count == CLOSURE_MAX;
    for (size_t i = 0; i < closure->count && !known; i++)
        known = strcmp(closure->members[i].name, name) == 0;
    return !known;
}

static bool take_member(struct search *search, struct hf_elf *elf, const char *path)
{
    struct hf_inspection *inspection = search->inspection;
    struct closure *closure = search->closure;
    struct strings strings;
    struct hf_elf_tls tls;
    const char *name = hf_inspection_copy(inspection, search->name);
    const char *copy = hf_inspection_copy(inspection, path);
    if (name == NULL || copy == NULL)
        return true;
    if (hf_elf_tls(elf, &tls) && tls.initial_exec) {
        inspection->tls_needed += tls.size;
        if (tls.size > closure->largest) {
            closure->largest = tls.size;
            inspection->tls_largest = name;
        }
    }
    begin_strings(&strings, elf);
    closure->members[closure->count].name = name;
    closure->members[closure->count].path = copy;
    closure->members[closure->count].runpath = copy_runpath(inspection, &strings);
    closure->members[closure->count++].needed = copy_needed(inspection, &strings);
    return true;
}

static void find_member(struct search *search, const char *name)
{
    if (is_new_member(search->closure, name) && !find_file(search, name))
        search->inspection->read_all = false;
}

/* ---- used libraries ------------------------------------------------------------------------- */

static bool take_library(struct search *search, struct hf_elf *elf, const char *path)
{
    struct look look = {search->names, false};
    if (hf_elf_symbols(elf, HF_ELF_DYNSYM, look_for_use, &look) != 0)
        return false;
    search->library->path = hf_inspection_copy(search->inspection, path);
    search->library->state = look.found ? HF_LIBRARY_USED : HF_LIBRARY_UNUSED;
    if (search->closure != NULL && is_new_member(search->closure, search->name))
        take_member(search, elf, path); /* while the file is open */
    return true;
}

static void find_library(struct search *search, struct hf_inspection_library *library)
{
    library->state = HF_LIBRARY_NOT_FOUND;
    search->library = library;
    search->take = take_library;
    find_file(search, library->name);
}

/* ---- all libraries -------------------------------------------------------------------------- */

static void sum_tls(struct search *search)
{
    struct hf_inspection *inspection = search->inspection;
    const struct closure *closure = search->closure;
    search->take = take_member;
    for (size_t i = 0; i < inspection->libraries_count; i++)
        find_member(search, inspection->libraries[i].name);
    for (size_t i = 0; i < closure->count && closure->count < CLOSURE_MAX; i++) {
        search->runpath = closure->members[i].runpath;
        if (search->runpath != NULL)
            find_origin(search, closure->members[i].path);
        const char *name = closure->members[i].needed;
        for (; name[0] != '\0'; name += strlen(name) + 1)
            find_member(search, name);
    }
    if (closure->count == CLOSURE_MAX)
        inspection->read_all = false;
}

int hf_inspect_libraries(struct hf_elf *elf, struct hf_inspection *inspection,
                         const struct hf_name_set *names)
{
    struct search *search = calloc(1, sizeof *search);
    if (search == NULL)
        return hf_elf_fail(elf, -ENOMEM, "out of memory");
    search->elf = elf;
    search->inspection = inspection;
    search->names = names;
    search->runpath = hf_elf_tag_string(elf, DT_RUNPATH);
    if (search->runpath == NULL)
        search->runpath = hf_elf_tag_string(elf, DT_RPATH);
    find_origin(search, inspection->path);
    search->closure = calloc(1, sizeof *search->closure);
    inspection->read_all = search->closure != NULL;
    inspection->read =
        hf_inspection_allocate(inspection, 2 * sizeof(char *[HF_INSPECTION_PATHS_MAX]));
    inspection->missed =
        inspection->read != NULL ? inspection->read + HF_INSPECTION_PATHS_MAX : NULL;
    for (size_t i = 0; i < inspection->libraries_count; i++) {
        struct hf_inspection_library *library = &inspection->libraries[i];
        if (library->state == HF_LIBRARY_USED)
            continue;
        if (inspection->files != NULL && inspection->files->without_use)
            library->state = HF_LIBRARY_NOT_ASKED;
        else
            find_library(search, library);
    }
    if (search->closure != NULL)
        sum_tls(search);
    free(search->closure);
    free(search->cache.data);
    free(search);
    return 0;
}
