/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing lasting but static buffers, which the loader's lock guards: foreign.c holds what is
 * published, kept_names.c the names.
 *
 * Which functions are called: an allocator's public functions, whose signatures are the same in all
 * of its versions (known_allocators.def names the source of each). It does not matter that they are
 * not exported; if a compiler dropped or cloned one, its name is gone or changed. Internal
 * functions are never called; jemalloc's rtree is read, after it has been verified. Addresses come
 * from the loaded file: its header, program headers and notes (build id) are compared with memory
 * first.
 *
 * trials.c calls the allocators that were found, to see whether they are what they seem.
 */
#include "loader/foreign/finding.h"

#include "alloc/base/apart.h"
#include "alloc/base/maps.h"
#include "alloc/base/options.h"
#include "alloc/owner/foreign.h"
#include "loader/elf/elf_names.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/hosted_mappings.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/members.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/object_role.h"
#include "loader/foreign/serving.h"
#include "loader/foreign/trials.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)HF_ALLOCATOR_DELETE_ONE == (int)HF_DELETE_ONE &&
                   (int)HF_ALLOCATOR_DELETE_ARRAY == (int)HF_DELETE_ARRAY &&
                   (int)HF_ALLOCATOR_DELETE_ALIGNED == (int)HF_DELETE_ALIGNED &&
                   (int)HF_ALLOCATOR_DELETE_ARRAY_ALIGNED == (int)HF_DELETE_ARRAY_ALIGNED,
               "the table's forms are those of homefree/alloc.h");
_Static_assert((int)HF_ALLOCATOR_TRIM_ALL == (int)HF_TRIM_ALL &&
                   (int)HF_ALLOCATOR_TRIM_FORCE == (int)HF_TRIM_FORCE &&
                   (int)HF_ALLOCATOR_TRIM_COMMAND == (int)HF_TRIM_COMMAND &&
                   (int)HF_ALLOCATOR_TRIM_MALLCTL == (int)HF_TRIM_MALLCTL,
               "the table's forms are those of foreign.h");

/* ---- one symbol table ---- */

enum { CALLS_MAX = 16, NAMES_PER_CALLS = 12, NAMES_MAX = CALLS_MAX * NAMES_PER_CALLS };

/* A row of hf_allocator_calls whose marker symbol was found. */
struct match {
    const struct hf_allocator_calls *calls;
    char prefix[48];
    size_t prefix_length;
    void *marker;
};

struct findings {
    const struct link_map *map;
    struct hf_elf *file; /* the loaded file; its segments tell code from data */
    bool present[HF_ALLOCATOR_COUNT];
    bool can_free[HF_ALLOCATOR_COUNT]; /* a release function was found */
    bool unproven[HF_ALLOCATOR_COUNT]; /* the only evidence is that the object exports it */
    struct hf_trial_functions functions[HF_ALLOCATOR_COUNT];
};

/* What one walk through a symbol table finds: rows, and the symbols among which their functions
 * are, so that the table need not be walked through again. */
enum { SYMBOLS_MAX = 4096 };
struct matches {
    struct findings *findings;
    struct match rows[CALLS_MAX];
    size_t count;
    uint32_t symbols[SYMBOLS_MAX];
    size_t symbols_count;
    bool too_many;
};

static bool is_code(const struct findings *findings, uint64_t value)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(findings->file, &cursor, &segment);)
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
            value - segment.p_vaddr < segment.p_filesz)
            return true;
    return false;
}

static void *code_of(const struct findings *findings, const struct hf_elf_symbol *symbol)
{
    if (!symbol->defined || symbol->type != STT_FUNC || !is_code(findings, symbol->value))
        return NULL;
    return (void *)(findings->map->l_addr + symbol->value);
}

static bool match_marker(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct matches *matches = context;
    struct findings *findings = matches->findings;
    if (!symbol->defined)
        return true;
    matches->too_many |= matches->symbols_count == SYMBOLS_MAX;
    if (!matches->too_many)
        matches->symbols[matches->symbols_count++] = symbol->index;
    if (pattern >= hf_allocator_patterns_count + hf_allocator_calls_count)
        return true; /* a function's name alone tells nothing */
    if (pattern < hf_allocator_patterns_count)
        findings->present[hf_allocator_pattern_owners[pattern]] = true;
    /* A marker may equal one of the patterns above, which come first and are then matched alone. */
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const struct hf_allocator_calls *calls = &hf_allocator_calls[i];
        const char *text = calls->marker[0] == '*' ? calls->marker + 1 : calls->marker;
        size_t whole = strnlen(symbol->name, 128), rest = strlen(text);
        bool same = whole < 128 && whole >= rest &&
                    strcmp(symbol->name + (whole - rest), text) == 0 &&
                    (calls->marker[0] == '*' || whole == rest);
        if (!same || matches->count == CALLS_MAX)
            continue;
        struct match *row = &matches->rows[matches->count];
        size_t length = hf_allocator_prefix(calls->marker, symbol->name);
        void *marker = code_of(findings, symbol);
        if (marker == NULL || length >= sizeof row->prefix)
            continue;
        row->calls = calls;
        row->marker = marker;
        row->prefix_length = length;
        memcpy(row->prefix, symbol->name, length);
        findings->present[calls->allocator] = true;
        matches->count++;
    }
    return true;
}

/* The symbols of jemalloc's rtree (rtree.h), with any private prefix. */
static const char *const rtree_names[] = {"*arena_emap_global", "*extents_rtree"};
enum { RTREES = sizeof rtree_names / sizeof rtree_names[0] };

/* The functions to find in a symbol table, and their addresses. */
struct wanted {
    struct findings *findings;
    char names[NAMES_MAX][96];
    const char *patterns[NAMES_MAX + RTREES];
    void *found[NAMES_MAX];
    bool ambiguous[NAMES_MAX]; /* several functions have that name */
    size_t count;              /* of functions; the patterns of rtrees follow */
    const char *tree;
    size_t tree_size;
    bool several_trees;
};

static void note_rtree(const struct hf_elf_symbol *symbol, struct wanted *wanted)
{
    if (!symbol->defined || symbol->type != STT_OBJECT)
        return;
    const char *at = (const char *)(wanted->findings->map->l_addr + symbol->value);
    wanted->several_trees |= wanted->tree != NULL && wanted->tree != at;
    wanted->tree = at;
    wanted->tree_size = symbol->size;
}

static bool note_function(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct wanted *wanted = context;
    if (pattern >= wanted->count) {
        note_rtree(symbol, wanted);
        return true;
    }
    void *code = code_of(wanted->findings, symbol);
    if (code == NULL)
        return true;
    wanted->ambiguous[pattern] |= wanted->found[pattern] != NULL && wanted->found[pattern] != code;
    wanted->found[pattern] = code;
    return true;
}

static void want_function(struct wanted *wanted, const struct match *row, const char *name)
{
    if (name == NULL || wanted->count == NAMES_MAX)
        return;
    char *text = wanted->names[wanted->count];
    if (!hf_allocator_function(text, sizeof wanted->names[0], name, row->prefix,
                               row->prefix_length))
        return;
    for (size_t i = 0; i < wanted->count; i++)
        if (strcmp(wanted->patterns[i], text) == 0)
            return;
    wanted->patterns[wanted->count++] = text;
}

static void *function_found(const struct wanted *wanted, const struct match *row, const char *name)
{
    char text[96];
    if (name == NULL ||
        !hf_allocator_function(text, sizeof text, name, row->prefix, row->prefix_length))
        return NULL;
    for (size_t i = 0; i < wanted->count; i++)
        if (strcmp(wanted->patterns[i], text) == 0)
            return wanted->ambiguous[i] ? NULL : wanted->found[i];
    return NULL;
}

static bool find_tree(const struct wanted *wanted, struct hf_trial_functions *functions)
{
    const struct link_map *map = wanted->findings->map;
    const char *symbol = wanted->tree;
    return symbol != NULL && !wanted->several_trees && hf_dynlink_find(symbol) == map &&
           wanted->tree_size != 0 && hf_dynlink_find(symbol + wanted->tree_size - 1) == map &&
           hf_rtree_from(symbol, wanted->tree_size, &functions->tree) &&
           hf_trial_tree(functions, hf_rtree_proves);
}

/* Of what has no release function, the marker alone has been seen, which may be another's. */
static void take_trim(const struct match *row, const struct wanted *wanted,
                      struct hf_trial_functions *functions)
{
    for (size_t i = 0; i < hf_allocator_trims_count && functions->trim == NULL; i++) {
        const struct hf_allocator_trim *trim = &hf_allocator_trims[i];
        if (trim->allocator != row->calls->allocator ||
            strcmp(trim->marker, row->calls->marker) != 0)
            continue;
        functions->trim = function_found(wanted, row, trim->name);
        functions->trim_name = trim->name[0] == '*' ? trim->name + 1 : trim->name;
        functions->trim_form =
            functions->trim != NULL ? (enum hf_trim_form)trim->form : HF_TRIM_NONE;
    }
}

static void take_functions(struct findings *findings, const struct match *row,
                           const struct wanted *wanted)
{
    static const enum hf_foreign_question kinds[] = {
        [HF_ALLOCATOR_QUESTION_TRUE] = HF_QUESTION_TRUE,
        [HF_ALLOCATOR_QUESTION_ONE] = HF_QUESTION_ONE,
    };
    const enum hf_allocator allocator = row->calls->allocator;
    struct hf_trial_functions functions = {.form = HF_FREE_NONE};
    if (findings->can_free[allocator])
        return;
    functions.question = function_found(wanted, row, row->calls->question);
    functions.kind = functions.question != NULL ? kinds[row->calls->kind] : HF_QUESTION_NONE;
    functions.realloc = function_found(wanted, row, row->calls->realloc);
    functions.usable_size = function_found(wanted, row, row->calls->usable_size);
    for (size_t i = 0; i < hf_allocator_releases_count && functions.release == NULL; i++) {
        const struct hf_allocator_release *release = &hf_allocator_releases[i];
        if (release->allocator != allocator || strcmp(release->marker, row->calls->marker) != 0)
            continue;
        functions.release = function_found(wanted, row, release->name);
        functions.form = release->form == HF_ALLOCATOR_FORM_FLAGS ? HF_FREE_FLAGS : HF_FREE_PLAIN;
    }
    for (size_t i = 0; i < hf_allocator_deletes_count; i++) {
        const struct hf_allocator_delete *row_delete = &hf_allocator_deletes[i];
        if (row_delete->allocator == allocator &&
            strcmp(row_delete->marker, row->calls->marker) == 0)
            functions.deletes[row_delete->form] = function_found(wanted, row, row_delete->name);
    }
    if (allocator == HF_ALLOCATOR_JEMALLOC) {
        if (functions.release == NULL && functions.realloc != NULL &&
            hf_trial_zero_frees(row->marker)) {
            functions.release = functions.realloc;
            functions.form = HF_FREE_RESIZE;
        }
        if (functions.release != NULL && functions.realloc != NULL && find_tree(wanted, &functions))
            functions.kind = HF_QUESTION_RTREE;
    }
    if (functions.release == NULL)
        functions.form = HF_FREE_NONE;
    else
        take_trim(row, wanted, &functions);
    findings->functions[allocator] = functions;
    findings->can_free[allocator] = functions.release != NULL;
}

/* Prepares the patterns of markers, and after them those of the functions that may be wanted. */
static int prepare_markers(struct hf_names *names)
{
    /* Static like the names, which point to it. */
    static HF_APART const char *patterns[HF_NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < hf_allocator_patterns_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_patterns[i];
    for (size_t i = 0; i < hf_allocator_calls_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_calls[i].marker;
    for (size_t i = 0; i < hf_allocator_calls_count && count + 3 <= HF_NAMES_MAX; i++) {
        const struct hf_allocator_calls *calls = &hf_allocator_calls[i];
        const char *const functions[] = {calls->question, calls->realloc, calls->usable_size};
        for (size_t f = 0; f < 3; f++)
            if (functions[f] != NULL)
                patterns[count++] = functions[f];
    }
    for (size_t i = 0; i < hf_allocator_releases_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_releases[i].name;
    for (size_t i = 0; i < hf_allocator_deletes_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_deletes[i].name;
    for (size_t i = 0; i < hf_allocator_trims_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_trims[i].name;
    for (size_t i = 0; i < RTREES && count < HF_NAMES_MAX; i++)
        patterns[count++] = rtree_names[i];
    return hf_names_prepare(names, patterns, count);
}

/* Finds the wanted functions among the symbols that were matched. */
static int find_functions(const struct matches *matches, const struct hf_names *names,
                          struct hf_elf *elf, enum hf_elf_table table, struct wanted *wanted)
{
    struct hf_elf_symbol_view view;
    if (matches->too_many)
        return hf_names_visit(names, elf, table, note_function, wanted);
    const int result = hf_elf_symbol_view(elf, table, &view);
    for (size_t i = 0; result == 0 && i < matches->symbols_count; i++) {
        const struct hf_elf_symbol symbol = hf_elf_symbol_at(&view, matches->symbols[i]);
        const int pattern = hf_names_match(names, symbol.name);
        if (pattern >= 0)
            note_function(&symbol, (size_t)pattern, wanted);
    }
    return result;
}

static void search_table(struct findings *findings, struct hf_elf *elf, enum hf_elf_table table)
{
    /* Static, guarded by the loader's lock: the stack of dlopen()'s caller may be 16 KiB. */
    static HF_APART struct hf_names markers, names;
    static HF_APART struct matches matches;
    static HF_APART struct wanted wanted;
    matches.findings = findings;
    matches.count = matches.symbols_count = 0;
    matches.too_many = false;
    if ((markers.count == 0 && prepare_markers(&markers) != 0) ||
        hf_names_visit(&markers, elf, table, match_marker, &matches) != 0 || matches.count == 0)
        return;
    memset(&wanted, 0, sizeof wanted);
    wanted.findings = findings;
    for (size_t i = 0; i < matches.count; i++) {
        const struct match *row = &matches.rows[i];
        want_function(&wanted, row, row->calls->question);
        want_function(&wanted, row, row->calls->realloc);
        want_function(&wanted, row, row->calls->usable_size);
        for (size_t r = 0; r < hf_allocator_releases_count; r++)
            if (hf_allocator_releases[r].allocator == row->calls->allocator)
                want_function(&wanted, row, hf_allocator_releases[r].name);
        for (size_t d = 0; d < hf_allocator_deletes_count; d++)
            if (hf_allocator_deletes[d].allocator == row->calls->allocator)
                want_function(&wanted, row, hf_allocator_deletes[d].name);
        for (size_t t = 0; t < hf_allocator_trims_count; t++)
            if (hf_allocator_trims[t].allocator == row->calls->allocator)
                want_function(&wanted, row, hf_allocator_trims[t].name);
    }
    memcpy(wanted.patterns + wanted.count, rtree_names, sizeof rtree_names);
    if (hf_names_prepare(&names, wanted.patterns, wanted.count + RTREES) != 0 ||
        find_functions(&matches, &names, elf, table, &wanted) != 0)
        return;
    /* In the order of the table, not of the symbols. */
    for (size_t call = 0; call < hf_allocator_calls_count; call++)
        for (size_t i = 0; i < matches.count; i++)
            if (matches.rows[i].calls == &hf_allocator_calls[call])
                take_functions(findings, &matches.rows[i], &wanted);
}

/* ---- the file ---- */

/* Returns whether a range of the file equals the object's memory at that address. */
static bool is_in_memory(const struct hf_object *object, struct hf_elf *elf, uint64_t offset,
                         uint64_t address, size_t size)
{
    unsigned char bytes[512], memory[sizeof bytes];
    const unsigned char *at = (const unsigned char *)object->base + address;
    if (size > sizeof bytes || hf_object_capacity(object, at) < size)
        return false;
    return hf_elf_read(elf, offset, bytes, size) == 0 && hf_maps_read(at, memory, size) &&
           memcmp(bytes, memory, size) == 0;
}

bool hf_finding_is_loaded(const struct link_map *map, struct hf_elf *elf)
{
    Elf64_Phdr segment;
    struct hf_object object;
    bool same = false;
    if (!hf_dynlink_open(map, &object))
        return false;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);) {
        if (segment.p_type == PT_LOAD && segment.p_offset == 0) {
            same = is_in_memory(&object, elf, 0, segment.p_vaddr, sizeof elf->header);
            if (!same)
                return false;
        }
        if ((segment.p_type == PT_DYNAMIC &&
             map->l_addr + segment.p_vaddr != (uintptr_t)map->l_ld) ||
            (segment.p_type == PT_NOTE && segment.p_filesz != 0 && segment.p_filesz <= 512 &&
             !is_in_memory(&object, elf, segment.p_offset, segment.p_vaddr, segment.p_filesz)))
            return false;
    }
    return same;
}

static void search_file(struct findings *findings)
{
    static HF_APART char beside[4096]; /* guarded by the loader's lock; the stack may be small */
    struct hf_elf elf, debug;
    const char *path = findings->map->l_name;
    if (path == NULL || path[0] == '\0')
        path = "/proc/self/exe";
    if (hf_elf_open(&elf, path) != 0)
        return;
    findings->file = &elf;
    if (hf_finding_is_loaded(findings->map, &elf)) {
        hf_elf_map_tables(&elf);
        search_table(findings, &elf, HF_ELF_DYNSYM);
        if (hf_elf_symbol_count(&elf, HF_ELF_SYMTAB) != 0) {
            search_table(findings, &elf, HF_ELF_SYMTAB);
        } else if (hf_elf_find_debug(&debug, &elf, path, beside, sizeof beside) == 0) {
            search_table(findings, &debug, HF_ELF_SYMTAB);
            hf_elf_close(&debug);
        }
    }
    findings->file = NULL;
    hf_elf_close(&elf);
}

/* ---- publishing ---- */

/* The interpreter's own allocators, pymalloc and since 3.13 a mimalloc, are loader/host's. */
static bool is_interpreter(const struct hf_object *object)
{
    return hf_object_symbol(object, "PyMem_SetAllocator") != NULL;
}

/* Returns whether the object exports a known allocator; needs no reading of its file. */
static bool exports_allocator(const struct hf_object *object)
{
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const char *marker = hf_allocator_calls[i].marker;
        if (hf_object_symbol(object, marker[0] == '*' ? marker + 1 : marker) != NULL)
            return true;
    }
    return false;
}

/* Attributes exported free() or operator delete to the one allocator inside the object for which no
 * functions were found. They can be called whatever symbols are left. */
static void take_exported(const struct hf_object *object, struct findings *findings)
{
    struct hf_trial_functions *functions = NULL;
    struct hf_trial_functions exported = {
        .allocate = hf_object_address(object, "malloc"),
        .realloc = hf_object_address(object, "realloc"),
        .usable_size = hf_object_address(object, "malloc_usable_size"),
        .release = hf_object_address(object, "free"),
        .form = HF_FREE_PLAIN,
        .kind = HF_QUESTION_NONE,
    };
    if (exported.release == NULL)
        exported = (struct hf_trial_functions){
            .allocate = hf_object_address(object, "_Znwm"),
            .release = hf_object_address(object, "_ZdlPv"),
            .form = HF_FREE_PLAIN,
            .kind = HF_QUESTION_NONE,
        };
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        if (!findings->present[i])
            continue;
        if (findings->can_free[i] && findings->functions[i].release == exported.release)
            return;
        if (findings->can_free[i])
            continue;
        if (functions != NULL)
            return; /* two candidates */
        functions = &findings->functions[i];
        exported.question = functions->question;
        exported.kind = functions->kind;
        exported.trim_form = functions->trim_form;
        exported.trim = functions->trim;
        exported.trim_name = functions->trim_name;
        findings->can_free[i] = findings->unproven[i] = exported.release != NULL;
    }
    if (functions != NULL && exported.release != NULL)
        *functions = exported;
}

/* For an object that exports an allocator without telling symbols: searches for strings, which
 * cannot wait until it maps memory, because its functions have to be called for that. */
static void examine_exporter(const struct hf_object *object, struct findings *findings)
{
    bool exports =
        hf_object_address(object, "free") != NULL || hf_object_address(object, "_ZdlPv") != NULL;
    bool any = false;
    if (!exports)
        return;
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
        any |= findings->present[i];
    if (!any)
        hf_tracking_search(object->map, findings->present);
    take_exported(object, findings);
    struct hf_trial_functions *functions = &findings->functions[HF_ALLOCATOR_JEMALLOC];
    if (findings->can_free[HF_ALLOCATOR_JEMALLOC] && functions->kind == HF_QUESTION_NONE &&
        (functions->allocate != NULL || functions->realloc != NULL) &&
        hf_trial_search_tree(object, functions)) {
        functions->kind = HF_QUESTION_RTREE;
        findings->unproven[HF_ALLOCATOR_JEMALLOC] = false;
    }
}

/* beside: how many others the object holds, which are known already; first: the number under which
 * its pages are recorded, or 0. Result: that number. */
static unsigned publish(const struct hf_object *object, struct findings *findings, size_t beside,
                        unsigned first)
{
    unsigned last = 0;
    size_t count = beside;
    const char *name = hf_keep_name(hf_dynlink_name(object->map));
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
        count += findings->present[i];
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        if (!findings->present[i])
            continue;
        last = first == 0 ? hf_tracking_number(object->map) : 0;
        if (last == 0 && (last = hf_foreign_reserve()) == 0)
            continue;
        struct hf_trial_functions *functions = &findings->functions[i];
        if (first == 0) /* its pages are recorded from now on */
            hf_tracking_candidate(object->map, last, findings->present);
        first = first == 0 ? last : first;
        /* An allocator that serves the process is called by name in the scope, never through this
         * entry. */
        if (findings->unproven[i] && hf_serving(object) != HF_SERVES_PROCESS &&
            !hf_trial_owns_pages(first, functions))
            *functions = (struct hf_trial_functions){.form = HF_FREE_NONE};
        struct hf_foreign_allocator allocator = {
            .name = hf_allocator_name((enum hf_allocator)i),
            .object = name,
            .map = object->map,
            .kind = functions->kind,
            .form = functions->form,
            .serves = hf_serving(object),
            .displaced = hf_serving_is_displaced(object),
            .shares = count > 1,
            .maps_all = hf_object_address(object, "mmap") != NULL,
            .question = functions->question,
            .release = functions->release,
            .tree = functions->tree,
            .realloc = (void *(*)(void *, size_t))functions->realloc,
            .usable_size = (size_t(*)(const void *))functions->usable_size,
            .trim_form = functions->trim_form,
            .trim = functions->trim,
            .trim_name = functions->trim_name,
        };
        memcpy(allocator.deletes, functions->deletes, sizeof allocator.deletes);
        hf_foreign_publish(last, &allocator);
    }
    return first;
}

/* Whether an object may hold an allocator beside its members, and no pass has searched it. Most may
 * not: without mapping calls there is none. */
static bool may_hold_another(const struct hf_object *object, const struct hf_imports *imports,
                             const struct hf_members *members)
{
    return imports->maps && !members->unnamed &&
           (imports->advises || imports->moves_break || exports_allocator(object)) &&
           !hf_tracking_is_candidate(object->map);
}

/* Searches an object for allocators beside its members. Not inlined: what it needs of the stack,
 * whose size is dlopen()'s caller's, others need not. */
static __attribute__((noinline)) void search(const struct hf_object *object,
                                             const struct hf_imports *imports,
                                             const struct hf_members *members)
{
    struct findings findings = {.map = object->map};
    search_file(&findings);
    if (members->count == 0) /* what a member's object exports is the member's */
        examine_exporter(object, &findings);
    bool any = false, silent = false;
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        findings.present[i] = findings.present[i] && !members->known[i];
        any |= findings.present[i];
        silent |= findings.present[i] && findings.functions[i].kind == HF_QUESTION_NONE;
    }
    unsigned number = hf_members_publish(object, members, any);
    if (number != 0)
        hf_tracking_candidate(object->map, number, members->known);
    if (any && hf_serving_pin(object)) {
        number = publish(object, &findings, members->count, number);
        if (number != 0 && hf_serving(object) != HF_SERVES_PROCESS)
            hf_asking_begin();
    }
    /* An allocator that can be asked also answers for memory from the program break. */
    if (imports->moves_break && ((!any && members->count == 0) || silent))
        hf_tracking_break_is_shared();
    hf_tracking_candidate(object->map, number, members->known);
}

void hf_finding_look(const struct hf_object *object, const struct hf_imports *imports)
{
    struct hf_members members;
    if (imports->maps && is_interpreter(object)) {
        hf_hosted_mappings_look(object);
        return;
    }
    hf_members_find(object, &members);
    if (members.count != 0 && hf_foreign_lives_in(object->map))
        return; /* a pass that starts over */
    if (hf_options.guess && may_hold_another(object, imports, &members)) {
        search(object, imports, &members);
        return;
    }
    const unsigned number = hf_members_publish(object, &members, false);
    if (number != 0 && hf_options.guess)
        hf_tracking_candidate(object->map, number, members.known);
    else if (members.count == 0 && imports->moves_break && !hf_options.guess)
        hf_tracking_break_is_shared();
}

/* ---- remarks ---- */

const char *hf_finding_remark(const struct link_map *map)
{
    char text[512] = "";
    size_t length = 0;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->map != map || allocator->serves == HF_SERVES_PROCESS ||
            length >= sizeof text)
            continue;
        bool callable = allocator->form != HF_FREE_NONE;
        char leaked[64] = "";
        if (hf_foreign_leaked(number) != 0)
            snprintf(leaked, sizeof leaked, "; %" PRIu64 " of its blocks were leaked",
                     hf_foreign_leaked(number));
        int added = snprintf(
            text + length, sizeof text - length,
            "%san allocator lives inside: %s; its blocks %s%s%s", length != 0 ? "; " : "",
            allocator->name,
            callable ? "go home to it, whoever frees them"
                     : "cannot be sent home: none of its functions can be called",
            callable && !hf_object_is_early(map)
                ? "; the object stays loaded after dlclose(), because its functions are called"
                : "",
            leaked);
        length += added > 0 ? (size_t)added : 0;
    }
    return length != 0 ? hf_keep_name(text) : NULL;
}
