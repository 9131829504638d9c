/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See place_names.h. One object after the other is opened and closed, so that the debug information
 * of only one is in memory.
 */
#include "loader/command/report/place_names.h"

#include "loader/command/grown.h"
#include "loader/command/progress.h"
#include "loader/command/report/libdw.h"
#include "loader/elf/elf_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer names are cut: a hostile one is as long as its file. */
enum { NAME_MAX_BYTES = 4096 };

/* ---- symbol tables -------------------------------------------------------------------------- */

struct function {
    uint64_t start, size;
    const char *name; /* valid until the file is closed */
    unsigned rank;    /* the lower, the better is the name among those of one address */
};

struct functions {
    struct function *items;
    size_t count;
    bool failed;
};

static bool collect(const struct hf_elf_symbol *symbol, void *context)
{
    struct functions *functions = context;
    const bool code = symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC;
    if (!code || !symbol->defined || symbol->value == 0)
        return true;
    struct function *items = hf_grown(functions->items, functions->count, sizeof *items);
    functions->failed = items == NULL;
    if (functions->failed)
        return false;
    functions->items = items;
    functions->items[functions->count++] = (struct function){
        .start = symbol->value,
        .size = symbol->size,
        .name = symbol->name,
        .rank = symbol->binding == STB_GLOBAL ? 0
                : symbol->binding == STB_WEAK ? 1
                                              : 2,
    };
    return true;
}

static int compare_functions(const void *left, const void *right)
{
    const struct function *one = left, *other = right;
    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    return strncmp(one->name, other->name, NAME_MAX_BYTES);
}

/* Reads the table that knows most: the file's own, that of its debug file, the dynamic linker's. */
static void read_functions(struct functions *functions, struct hf_elf *elf, struct hf_elf *debug)
{
    hf_elf_symbols(elf, HF_ELF_SYMTAB, collect, functions);
    if (functions->count == 0 && hf_elf_open_debug(debug, elf, NULL) == 0)
        hf_elf_symbols(debug, HF_ELF_SYMTAB, collect, functions);
    if (functions->count == 0)
        hf_elf_symbols(elf, HF_ELF_DYNSYM, collect, functions);
    if (functions->failed)
        hf_keep_out_of_memory();
    if (functions->count > 1)
        qsort(functions->items, functions->count, sizeof *functions->items, compare_functions);
}

static const char *function_at(const struct functions *functions, uint64_t address)
{
    size_t low = 0, high = functions->count;
    while (low < high) { /* the first one that starts after the address */
        const size_t middle = low + (high - low) / 2;
        if (functions->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const uint64_t start = functions->items[low - 1].start;
    while (low > 1 && functions->items[low - 2].start == start)
        low--;
    const struct function *function = &functions->items[low - 1];
    return function->size == 0 || address - start < function->size ? function->name : NULL;
}

/* ---- names in C++ ---- */

/* Longer names are not demangled: a few bytes can stand for gigabytes. */
enum { LONGEST = 2048 };

typedef char *demangle_function(const char *name, char *buffer, size_t *length, int *status);

static demangle_function *find_function(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    demangle_function *function = NULL;
    for (size_t i = 0; function == NULL && i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL)
            *(void **)&function = dlsym(library, "__cxa_demangle");
    }
    return function;
}

static char *demangle(const char *name)
{
    static bool tried;
    static demangle_function *function;
    if (strncmp(name, "_Z", 2) != 0 || strnlen(name, LONGEST) == LONGEST)
        return NULL;
    if (!tried)
        function = find_function();
    tried = true;
    int status = -1;
    return function != NULL ? function(name, NULL, NULL, &status) : NULL;
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *keep_name(struct hf_keep *keep, const char *name)
{
    if (name == NULL || *name == '\0')
        return NULL;
    char *readable = demangle(name);
    const char *best = readable != NULL ? readable : name;
    const char *kept = hf_keep_part(keep, best, strnlen(best, NAME_MAX_BYTES));
    free(readable);
    return kept;
}

/* Opens the object's file if it is the one that was recorded. Returns a descriptor or -1. */
static int open_object(const struct hf_merged *merged, const struct hf_object *object,
                       struct hf_elf *elf)
{
    if (object->path[0] != '/')
        return -1;
    const int descriptor = merged->open_object != NULL
                               ? merged->open_object(merged->files, object->path)
                               : open(object->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return -1;
    struct stat status;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        hf_elf_open_descriptor(elf, descriptor) == 0) {
        uint8_t build[sizeof object->build];
        const size_t size = hf_elf_build_id(elf, build, sizeof build);
        if (size == object->build_size && memcmp(build, object->build, size) == 0)
            return descriptor;
        hf_elf_close(elf);
    }
    close(descriptor);
    return -1;
}

/* Whether an address lies in the file's code. Symbols without a size seem to have no end. */
static bool is_code(const struct hf_elf *elf, uint64_t address)
{
    size_t cursor = 0;
    Elf64_Phdr segment;
    while (hf_elf_segment(elf, &cursor, &segment))
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
            address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_memsz)
            return true;
    return false;
}

static void name_object(const struct hf_merged *merged, const struct hf_object *object)
{
    struct hf_keep *keep = merged->keep;
    struct hf_elf elf, debug = {.descriptor = -1};
    struct hf_libdw_file libdw;
    struct functions functions = {.items = NULL};
    const int descriptor = open_object(merged, object, &elf);
    const bool lines =
        hf_libdw_open(&libdw, object->path, descriptor, object->build, object->build_size);
    bool read = descriptor < 0;
    for (size_t i = 0; i < object->places_count; i++) {
        struct hf_place *place = object->places[i];
        const uint64_t call = place->offset - 1; /* the call is in front of its return address */
        if (place->offset == 0 || (descriptor >= 0 && !is_code(&elf, call)))
            continue;
        struct hf_libdw_names names = {.symbol = NULL};
        if (lines)
            names = hf_libdw_look_up(&libdw, call);
        if (names.symbol == NULL && !read) {
            read_functions(&functions, &elf, &debug);
            read = true;
        }
        place->symbol =
            keep_name(keep, names.symbol != NULL ? names.symbol : function_at(&functions, call));
        if (names.source != NULL && *names.source != '\0') {
            place->file = hf_keep_part(keep, names.source, strnlen(names.source, NAME_MAX_BYTES));
            place->line = (unsigned)names.line;
        }
    }
    free(functions.items);
    if (lines)
        hf_libdw_close(&libdw);
    hf_elf_close(&debug);
    if (descriptor >= 0) {
        hf_elf_close(&elf);
        close(descriptor);
    }
}

void hf_place_names_find(struct hf_merged *merged)
{
    for (size_t i = 0; i < merged->objects_count; i++) {
        const struct hf_object *object = merged->objects[i];
        if (object->places_count == 0)
            continue;
        hf_progress("homefree report", "reading names of %s", hf_merged_name(object->path));
        name_object(merged, object);
    }
    hf_progress_end();
}
