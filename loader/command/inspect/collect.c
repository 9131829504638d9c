/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See collect.h.
 */
#include "loader/command/inspect/collect.h"

#include "loader/command/command.h"
#include "loader/command/grown.h"
#include "loader/command/inspect/archive_reader.h"
#include "loader/command/progress.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static const char who[] = "homefree inspect";

/* ---- what a file is ------------------------------------------------------------------------- */

enum { MAGIC = 4 };

/* Reads the first bytes of a regular file. Returns false for anything else. */
static bool read_magic(const char *path, unsigned char out[MAGIC])
{
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return false;
    const bool read_all = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                          pread(descriptor, out, MAGIC, 0) == MAGIC;
    close(descriptor);
    return read_all;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), most = strlen(end);
    return length >= most && strcasecmp(text + length - most, end) == 0;
}

static bool is_zip(const unsigned char magic[MAGIC])
{
    return memcmp(magic, "PK\3\4", MAGIC) == 0 || memcmp(magic, "PK\5\6", MAGIC) == 0;
}

/* Whether a file is named like an archive that read_archive.py reads. */
static bool is_named_archive(const char *path)
{
    static const char *const ends[] = {".whl",     ".zip",  ".tar",    ".tar.gz", ".tgz",
                                       ".tar.bz2", ".tbz2", ".tar.xz", ".txz"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(path, ends[i]))
            return true;
    return false;
}

/* Whether a file is named like a shared object: libx.so, libx.so.1.2; not libx.so.debug. */
static bool is_named_object(const char *path)
{
    const size_t length = strlen(path);
    size_t end = length;
    while (end > 0 && strchr("0123456789.", path[end - 1]) != NULL)
        end--;
    return (end == length || path[end] == '.') && end >= 3 && memcmp(path + end - 3, ".so", 3) == 0;
}

/* ---- objects -------------------------------------------------------------------------------- */

static void fail(struct hf_collect *collect, size_t container, const char *path, size_t inner,
                 const char *why)
{
    hf_progress_end();
    hf_command_complain(who, "cannot inspect '%s': %s", path, why);
    hf_inspected_add(collect->inspected, container, path, inner, NULL, why);
}

/* What nobody loads is left out of a container: programs, object files, and files for other
 * machines (a GPU's) or damaged ones (a test's data) that are not even named like shared objects.
 */
static bool is_left_out(const char *path, int result, const struct hf_inspection *inspection)
{
    if (result == 0 && inspection->kind == HF_KIND_SHARED_OBJECT)
        return false;
    const bool readable = result == 0 && strcmp(inspection->machine, "unknown") != 0;
    return readable || !is_named_object(path);
}

/* Takes what hf_inspect() left. `container` may be SIZE_MAX: the file itself was given. */
static void take(struct hf_collect *collect, size_t container, const char *path, size_t inner,
                 int result, struct hf_inspection *inspection)
{
    struct hf_inspected *inspected = collect->inspected;
    if (container != SIZE_MAX && is_left_out(path, result, inspection)) {
        inspected->containers[container].skipped++;
        hf_inspection_free(inspection);
        return;
    }
    if (result == 0 && collect->require_homefree)
        result = hf_inspection_require_homefree(inspection);
    if (result == 0) {
        hf_inspected_add(inspected, container, path, inner, inspection, NULL);
        return;
    }
    /* The reader explains what is wrong with a file's contents, the system why it cannot be
     * read. */
    const bool readers = result == -ENOEXEC || result == -EISDIR || result == -ENOMEM;
    fail(collect, container, path, inner,
         readers && inspection->why != NULL ? inspection->why : strerror(-result));
    hf_inspection_free(inspection);
}

/* Adds what adopting an object with an allocator would do; `opened` is the result of opening it. */
static int look_at_adoption(int opened, struct hf_elf *elf, const char *path,
                            struct hf_inspection *inspection)
{
    if (opened != 0)
        return opened;
    const int result = hf_inspection_look_at_adoption(inspection, elf, path);
    hf_elf_close(elf);
    return result;
}

static bool wants_adoption(const struct hf_collect *collect, int result,
                           const struct hf_inspection *inspection)
{
    return collect->adoption && result == 0 && inspection->allocators_count > 0;
}

static void take_file(struct hf_collect *collect, size_t container, const char *path)
{
    struct hf_inspection inspection;
    struct hf_elf elf;
    hf_progress(who, "%zu objects, %.50s", collect->inspected->objects_count, path);
    int result = hf_inspect(path, &inspection);
    if (wants_adoption(collect, result, &inspection))
        result = look_at_adoption(hf_elf_open(&elf, path), &elf, path, &inspection);
    take(collect, container, path, 0, result, &inspection);
}

/* ---- archives ------------------------------------------------------------------------------- */

struct member {
    char *name, *place;
    uint64_t offset, size;
};

struct archive {
    struct hf_collect *collect;
    const char *path;
    size_t container;
    int descriptor;
    struct member *members; /* sorted by their places when they are all there */
    size_t count;
    const struct member *current; /* the one that is inspected */
};

static int by_place(const void *left, const void *right)
{
    return strcmp(((const struct member *)left)->place, ((const struct member *)right)->place);
}

static int has_place(const void *place, const void *member)
{
    return strcmp(place, ((const struct member *)member)->place);
}

static int open_member(struct hf_elf *elf, const char *path, const void *context)
{
    const struct archive *archive = context;
    const char *place = path + sizeof HF_INSPECTION_ROOT - 1;
    const struct member *found = archive->current;
    if (strcmp(found->place, place) != 0)
        found =
            bsearch(place, archive->members, archive->count, sizeof *archive->members, has_place);
    return found != NULL ? hf_elf_open_range(elf, archive->descriptor, found->offset, found->size)
                         : -ENOENT;
}

/* The path of a member as shown, for the caller to free; `inner` is where its name begins. */
static char *member_path(const struct archive *archive, const char *name, size_t *inner)
{
    char *path = NULL;
    *inner = name[0] != '\0' ? strlen(archive->path) + sizeof HF_MEMBER_MARK - 1 : 0;
    if (asprintf(&path, "%s%s%s", archive->path, *inner > 0 ? HF_MEMBER_MARK : "", name) < 0)
        exit(hf_command_out_of_memory(who));
    return path;
}

static void take_member(const struct hf_archive_member *member, void *context)
{
    struct archive *archive = context;
    if (member->why != NULL) {
        size_t inner;
        char *path = member_path(archive, member->name, &inner);
        fail(archive->collect, archive->container, path, inner, member->why);
        free(path);
        return;
    }
    archive->members = hf_grown(archive->members, archive->count, sizeof *archive->members);
    struct member *taken = archive->members != NULL ? &archive->members[archive->count++] : NULL;
    if (taken != NULL)
        *taken = (struct member){.name = strdup(member->name),
                                 .place = strdup(member->place),
                                 .offset = member->offset,
                                 .size = member->size};
    if (taken == NULL || taken->name == NULL || taken->place == NULL)
        exit(hf_command_out_of_memory(who));
}

static void wait_for_archive(void *context)
{
    const struct archive *archive = context;
    hf_progress(who, "%zu objects, reading %.50s", archive->collect->inspected->objects_count,
                archive->path);
}

static void inspect_member(struct archive *archive, const struct member *member)
{
    const struct hf_inspection_files files = {.open = open_member, .context = archive};
    struct hf_inspection inspection;
    size_t inner;
    char *place = NULL, *path = member_path(archive, member->name, &inner);
    if (asprintf(&place, HF_INSPECTION_ROOT "%s", member->place) < 0)
        exit(hf_command_out_of_memory(who));
    hf_progress(who, "%zu objects, %.50s", archive->collect->inspected->objects_count, path);
    archive->current = member;
    int result = hf_inspect_among(place, &files, &inspection);
    struct hf_elf elf;
    if (wants_adoption(archive->collect, result, &inspection))
        result = look_at_adoption(open_member(&elf, place, archive), &elf, place, &inspection);
    take(archive->collect, archive->container, path, inner, result, &inspection);
    free(place);
    free(path);
}

static struct hf_archive_reader *start(struct hf_archive_reader **reader, char *python,
                                       enum hf_archive_question question)
{
    if (*reader == NULL)
        *reader = hf_archive_reader_start(who, python, question);
    return *reader;
}

static void inspect_archive(struct hf_collect *collect, const char *path)
{
    const size_t container = hf_inspected_contain(collect->inspected, HF_CONTAINER_ARCHIVE, path);
    struct archive archive = {.collect = collect, .path = path, .container = container};
    struct hf_archive_reader *reader =
        start(&collect->archives, collect->python, HF_ARCHIVE_MEMBERS);
    if (reader == NULL) {
        fail(collect, container, path, 0, "there is no Python to read it");
        return;
    }
    const int result = hf_archive_reader_ask(reader, path, take_member, wait_for_archive, &archive);
    archive.descriptor = hf_archive_reader_descriptor(reader);
    if (archive.count > 0)
        qsort(archive.members, archive.count, sizeof *archive.members, by_place);
    for (size_t i = 0; i < archive.count; i++)
        inspect_member(&archive, &archive.members[i]);
    for (size_t i = 0; i < archive.count; i++) {
        free(archive.members[i].name);
        free(archive.members[i].place);
    }
    free(archive.members);
    if (result != 0) {
        fail(collect, container, path, 0,
             "the Python that read it ended; it must be CPython 3.9 or later, and have memory");
        hf_archive_reader_end(collect->archives);
        collect->archives = NULL;
    }
}

/* ---- directories and distributions --------------------------------------------------------------
 */

static void take_contained(struct hf_collect *collect, size_t container, const char *path)
{
    unsigned char magic[MAGIC];
    if (!read_magic(path, magic))
        return;
    if (memcmp(magic, ELFMAG, MAGIC) == 0)
        take_file(collect, container, path);
    else if (is_zip(magic) && ends_with(path, ".whl"))
        inspect_archive(collect, path);
}

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* Whether a directory is where the kernel shows its own state as files. None of these is a module,
 * and reading some has effects or does not end. */
static bool is_kernel_state(const FTSENT *entry)
{
    struct statfs system;
    if (entry->fts_level == 0 || entry->fts_statp->st_dev == entry->fts_parent->fts_statp->st_dev ||
        statfs(entry->fts_path, &system) != 0)
        return false;
    return system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC;
}

static void inspect_directory(struct hf_collect *collect, char *path)
{
    const size_t container = hf_inspected_contain(collect->inspected, HF_CONTAINER_DIRECTORY, path);
    char *const paths[] = {path, NULL};
    /* Links are not followed, so that none leads in a circle or out of the directory. */
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    FTSENT *entry = NULL;
    while (walk != NULL && (entry = fts_read(walk)) != NULL) {
        if (entry->fts_info == FTS_F)
            take_contained(collect, container, entry->fts_path);
        else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            fail(collect, container, entry->fts_path, 0, strerror(entry->fts_errno));
        else if (entry->fts_info == FTS_D && is_kernel_state(entry))
            (void)fts_set(walk, entry, FTS_SKIP);
    }
    if (walk == NULL || errno != 0)
        fail(collect, container, path, 0, strerror(errno));
    if (walk != NULL)
        fts_close(walk);
}

struct package {
    struct hf_collect *collect;
    const char *name;
    size_t container;
};

static void take_installed(const struct hf_archive_member *member, void *context)
{
    const struct package *package = context;
    if (member->why != NULL)
        fail(package->collect, package->container, package->name, 0, member->why);
    else if (is_named_object(member->name) && access(member->name, F_OK) != 0)
        fail(package->collect, package->container, member->name, 0, strerror(errno));
    else
        take_contained(package->collect, package->container, member->name);
}

/* ---- what was given ------------------------------------------------------------------------- */

void hf_collect_path(struct hf_collect *collect, char *path)
{
    unsigned char magic[MAGIC];
    struct stat status;
    const bool known = stat(path, &status) == 0;
    if (known && S_ISDIR(status.st_mode)) {
        inspect_directory(collect, path);
        return;
    }
    const bool read = known && read_magic(path, magic);
    const bool object = read && memcmp(magic, ELFMAG, MAGIC) == 0;
    if (known && S_ISREG(status.st_mode) && !object &&
        ((read && is_zip(magic)) || is_named_archive(path)))
        inspect_archive(collect, path);
    else
        take_file(collect, SIZE_MAX, path);
}

static void wait_for_package(void *context)
{
    const struct package *package = context;
    hf_progress(who, "looking for %.50s", package->name);
}

void hf_collect_package(struct hf_collect *collect, const char *name)
{
    struct package package = {.collect = collect, .name = name};
    package.container = hf_inspected_contain(collect->inspected, HF_CONTAINER_PACKAGE, name);
    struct hf_archive_reader *reader =
        start(&collect->packages, collect->python, HF_ARCHIVE_PACKAGE);
    if (reader == NULL)
        fail(collect, package.container, name, 0, "there is no Python that knows it");
    else if (hf_archive_reader_ask(reader, name, take_installed, wait_for_package, &package) != 0) {
        fail(collect, package.container, name, 0,
             "the Python that looked for it ended; it must be CPython 3.9 or later");
        hf_archive_reader_end(collect->packages);
        collect->packages = NULL;
    }
}

void hf_collect_end(struct hf_collect *collect)
{
    hf_progress_end();
    hf_archive_reader_end(collect->archives);
    hf_archive_reader_end(collect->packages);
}
