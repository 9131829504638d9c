/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See functions.h.
 */
#include "satellites/adopt/hidden/functions.h"

#include "satellites/adopt/hidden/arrays.h"
#include "satellites/adopt/hidden/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    struct hf_functions *functions;
    const struct hf_image *image;
    size_t capacity, names_capacity, objects_capacity;
    bool exported; /* the table that is being read is the dynamic linker's */
    /* The source file of the symbols that come now, as the last STT_FILE says. Local ones follow
     * their file. */
    bool merged;   /* it stands for all that was optimised at link time */
    bool nameless; /* perhaps: GCC's has no name, and neither has the one at the end of the table */
    size_t file_names; /* index of its first name */
    bool named;        /* the source file has a name */
    bool apart;        /* the linker put what it made local into a nameless file at the end */
    int error;
};

/* What link-time optimisers call the file that they make of all sources: LLVM's, and GCC's. */
static void begin_file(struct gathering *gathering, const char *name)
{
    struct hf_functions *functions = gathering->functions;
    if (gathering->nameless)
        for (size_t i = gathering->file_names; i < functions->names_count; i++)
            functions->names[i].merged = true;
    gathering->merged = strcmp(name, "ld-temp.o") == 0 || strcmp(name, "<artificial>") == 0;
    gathering->nameless = name[0] == '\0';
    gathering->named = !gathering->nameless;
    gathering->file_names = functions->names_count;
}

/* Makes room for one more element. */
static bool more(struct gathering *gathering, void *array, size_t count, size_t *capacity,
                 size_t size)
{
    if (hf_array_more(array, count, capacity, size) != 0)
        gathering->error = -ENOMEM;
    return gathering->error == 0;
}

static bool add_function(struct gathering *gathering, const struct hf_function *function)
{
    struct hf_functions *functions = gathering->functions;
    const struct hf_stretch *stretch = hf_image_stretch(gathering->image, function->address);
    if (stretch == NULL || !stretch->code ||
        hf_image_is_linkage(gathering->image, function->address))
        return true;
    if (!more(gathering, &functions->functions, functions->count, &gathering->capacity,
              sizeof *function))
        return false;
    functions->functions[functions->count++] = *function;
    return true;
}

static bool add_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct gathering *gathering = context;
    struct hf_functions *functions = gathering->functions;
    if (!symbol->defined)
        return true;
    if (symbol->type == STT_FILE)
        begin_file(gathering, symbol->name);
    const bool local = symbol->binding == STB_LOCAL;
    if (!local) {
        gathering->apart |= gathering->nameless;
        gathering->nameless = false;
    }
    const struct hf_named named = {
        symbol->value,
        symbol->size,
        symbol->name,
        symbol->type,
        gathering->exported,
        local && gathering->merged,
        local && gathering->named,
    };
    if (symbol->type == STT_OBJECT) {
        const struct hf_stretch *stretch = hf_image_stretch(gathering->image, symbol->value);
        if (stretch == NULL || symbol->size > stretch->address + stretch->size - symbol->value)
            return true;
        if (!more(gathering, &functions->objects, functions->objects_count,
                  &gathering->objects_capacity, sizeof named))
            return false;
        functions->objects[functions->objects_count++] = named;
        return true;
    }
    if (symbol->type != STT_FUNC && symbol->type != STT_GNU_IFUNC)
        return true;
    if (!more(gathering, &functions->names, functions->names_count, &gathering->names_capacity,
              sizeof named))
        return false;
    functions->names[functions->names_count++] = named;
    const struct hf_function function = {symbol->value,       symbol->size, symbol->name,
                                         gathering->exported, false,        false};
    return add_function(gathering, &function);
}

/* Reads a table of symbols. Where the linker did not put apart what it made local (GNU's does), a
 * local symbol may be one that the sources shared. */
static int add_symbols(struct gathering *gathering, struct hf_elf *elf, enum hf_elf_table table)
{
    struct hf_functions *functions = gathering->functions;
    const size_t first = functions->names_count;
    gathering->merged = gathering->nameless = gathering->named = gathering->apart = false;
    const int error = hf_elf_symbols(elf, table, add_symbol, gathering);
    const bool apart = gathering->apart || gathering->nameless;
    for (size_t i = first; i < functions->names_count; i++)
        functions->names[i].internal &= apart;
    return error;
}

static bool add_unwound(uint64_t address, uint64_t size, void *context)
{
    const struct hf_function function = {.address = address, .size = size, .unwound = true};
    return add_function(context, &function);
}

static int order(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int by_address(const void *left, const void *right)
{
    return order(((const struct hf_function *)left)->address,
                 ((const struct hf_function *)right)->address);
}

static int by_named_address(const void *left, const void *right)
{
    return order(((const struct hf_named *)left)->address,
                 ((const struct hf_named *)right)->address);
}

static void sort(void *elements, size_t count, size_t size,
                 int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(elements, count, size, compare);
}

/* Leaves one function for each address, and cuts those that reach into the next. */
static void settle(struct hf_functions *functions)
{
    size_t kept = 0;
    for (size_t i = 0; i < functions->count; i++) {
        const struct hf_function *function = &functions->functions[i];
        struct hf_function *last = kept > 0 ? &functions->functions[kept - 1] : NULL;
        if (last == NULL || last->address != function->address) {
            functions->functions[kept++] = *function;
            continue;
        }
        /* What follows a symbol without a size, as assemblers leave them, may be a table. */
        last->gap = (last->gap && (function->gap || function->size == 0)) ||
                    (function->gap && last->size == 0);
        if (function->size > last->size)
            last->size = function->size;
        if (last->name == NULL)
            last->name = function->name;
        last->exported |= function->exported;
        last->unwound |= function->unwound;
    }
    functions->count = kept;
    for (size_t i = 0; i + 1 < kept; i++) {
        const uint64_t capacity =
            functions->functions[i + 1].address - functions->functions[i].address;
        if (functions->functions[i].size > capacity)
            functions->functions[i].size = capacity;
    }
}

/* Adds what lies between two addresses as gaps, without linkage tables. */
static void add_gaps(struct gathering *gathering, uint64_t from, uint64_t end)
{
    struct hf_functions *functions = gathering->functions;
    const struct hf_image *image = gathering->image;
    while (from < end) {
        uint64_t until = end;
        bool linkage = false;
        for (size_t i = 0; i < image->linkages_count; i++) {
            const struct hf_linkage *table = &image->linkages[i];
            if (table->slots)
                continue;
            if (from - table->address < table->size) {
                linkage = true;
                if (table->address + table->size < until)
                    until = table->address + table->size;
            } else if (table->address > from && table->address < until) {
                until = table->address;
            }
        }
        const struct hf_function gap = {.address = from, .size = until - from, .gap = true};
        if (!linkage) {
            if (!more(gathering, &functions->functions, functions->count, &gathering->capacity,
                      sizeof gap))
                return;
            functions->functions[functions->count++] = gap;
        }
        from = until;
    }
}

/* Makes code that belongs to no function a function of its own kind. The functions are sorted. */
static void fill_gaps(struct gathering *gathering)
{
    struct hf_functions *functions = gathering->functions;
    const struct hf_image *image = gathering->image;
    const size_t count = functions->count;
    size_t next = 0;
    for (size_t i = 0; i < image->stretches_count && gathering->error == 0; i++) {
        const struct hf_stretch *stretch = &image->stretches[i];
        const uint64_t end = stretch->address + stretch->bytes_size;
        uint64_t at = stretch->address;
        if (!stretch->code)
            continue;
        while (next < count && functions->functions[next].address < at)
            next++;
        for (; next < count && functions->functions[next].address < end; next++) {
            const struct hf_function function = functions->functions[next];
            add_gaps(gathering, at, function.address);
            at = function.address + function.size;
        }
        add_gaps(gathering, at, end);
    }
    sort(functions->functions, functions->count, sizeof *functions->functions, by_address);
    settle(functions);
}

int hf_functions_open(struct hf_functions *functions, const struct hf_image *image,
                      struct hf_elf *debug)
{
    *functions = (struct hf_functions){0};
    struct gathering gathering = {.functions = functions, .image = image, .exported = true};
    int error = add_symbols(&gathering, image->elf, HF_ELF_DYNSYM);
    gathering.exported = false;
    if (error == 0 || error == -ENOENT)
        error = add_symbols(&gathering, image->elf, HF_ELF_SYMTAB);
    if (debug != NULL && (error == 0 || error == -ENOENT))
        error = add_symbols(&gathering, debug, HF_ELF_SYMTAB);
    if (error == 0 || error == -ENOENT)
        error = hf_unwind_visit(image, add_unwound, &gathering);
    if (gathering.error != 0)
        error = gathering.error;
    sort(functions->functions, functions->count, sizeof *functions->functions, by_address);
    sort(functions->names, functions->names_count, sizeof *functions->names, by_named_address);
    sort(functions->objects, functions->objects_count, sizeof *functions->objects,
         by_named_address);
    settle(functions);
    if (error == 0 || error == -ENOENT) {
        fill_gaps(&gathering);
        error = gathering.error;
    }
    return error;
}

void hf_functions_close(struct hf_functions *functions)
{
    free(functions->functions);
    free(functions->names);
    free(functions->objects);
    *functions = (struct hf_functions){0};
}

struct hf_function *hf_function_at(const struct hf_functions *functions, uint64_t address)
{
    size_t first = 0, end = functions->count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (functions->functions[middle].address <= address)
            first = middle + 1;
        else
            end = middle;
    }
    struct hf_function *function = first > 0 ? &functions->functions[first - 1] : NULL;
    return function != NULL && address - function->address < function->size ? function : NULL;
}

static size_t first_named(const struct hf_named *names, size_t count, uint64_t address)
{
    size_t first = 0, end = count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (names[middle].address < address)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

const struct hf_named *hf_object_at(const struct hf_functions *functions, uint64_t address)
{
    const size_t behind = first_named(functions->objects, functions->objects_count, address + 1);
    const struct hf_named *object = behind > 0 ? &functions->objects[behind - 1] : NULL;
    return object != NULL && address - object->address < object->size ? object : NULL;
}
