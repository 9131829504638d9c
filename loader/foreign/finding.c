/*
 * Owns nothing that lasts: publishing is foreign.c's, and names are kept by kept_names.c.
 *
 * What may be called of another allocator, and why: its public functions, whose signatures are the
 * same in every version of it (known_allocators.def says where each is known from). That they are
 * not exported changes nothing about them; a compiler may only have dropped or cloned them, and
 * then their names are gone or changed. Nothing internal is called; jemalloc's rtree is read, once
 * it has shown to be one. Addresses come from the file that was loaded: its header, program headers
 * and notes (build id) are compared with memory first.
 */
#include "loader/foreign/finding.h"

#include "alloc/owner/foreign.h"
#include "alloc/owner/pagemap.h"
#include "alloc/owner/send_home.h"
#include "loader/elf/elf_names.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/mmap_tracking.h"
#include "loader/foreign/object_role.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- what one table of symbols says ---- */

enum { CALLS_MAX = 16, NAMES_PER_CALLS = 8, NAMES_MAX = CALLS_MAX * NAMES_PER_CALLS };

/* A row of hf_allocator_calls whose mark was seen. */
struct marked {
    const struct hf_allocator_calls *calls;
    char prefix[48];
    size_t prefix_length;
    void *mark;
};

struct functions {
    void *question, *allocate, *realloc, *usable_size, *release;
    struct hf_rtree tree;
    enum hf_free_form form;
    enum hf_foreign_question kind;
};

struct look {
    const struct link_map *map;
    struct hf_elf *file; /* that was loaded; its segments tell what is code */
    bool present[HF_ALLOCATOR_COUNT];
    bool complete[HF_ALLOCATOR_COUNT]; /* a release function was found */
    bool supposed[HF_ALLOCATOR_COUNT]; /* only that the object exports it says whose it is */
    enum hf_foreign_found found[HF_ALLOCATOR_COUNT];
    struct functions functions[HF_ALLOCATOR_COUNT];
};

struct marks {
    struct look *look;
    struct marked rows[CALLS_MAX];
    size_t count;
};

static bool is_code(const struct look *look, uint64_t value)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(look->file, &cursor, &segment);)
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
            value - segment.p_vaddr < segment.p_filesz)
            return true;
    return false;
}

static void *code_of(const struct look *look, const struct hf_elf_symbol *symbol)
{
    if (!symbol->defined || symbol->type != STT_FUNC || !is_code(look, symbol->value))
        return NULL;
    return (void *)(look->map->l_addr + symbol->value);
}

static bool see_mark(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct marks *marks = context;
    struct look *look = marks->look;
    if (!symbol->defined)
        return true;
    if (pattern < hf_allocator_patterns_count)
        look->present[hf_allocator_pattern_owners[pattern]] = true;
    /* A mark may be one of the patterns above, which come first and are matched alone. */
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const struct hf_allocator_calls *calls = &hf_allocator_calls[i];
        const char *text = calls->mark[0] == '*' ? calls->mark + 1 : calls->mark;
        size_t whole = strnlen(symbol->name, 128), rest = strlen(text);
        bool same = whole < 128 && whole >= rest &&
                    strcmp(symbol->name + (whole - rest), text) == 0 &&
                    (calls->mark[0] == '*' || whole == rest);
        if (!same || marks->count == CALLS_MAX)
            continue;
        struct marked *row = &marks->rows[marks->count];
        size_t length = hf_allocator_prefix(calls->mark, symbol->name);
        void *mark = code_of(look, symbol);
        if (mark == NULL || length >= sizeof row->prefix)
            continue;
        row->calls = calls;
        row->mark = mark;
        row->prefix_length = length;
        memcpy(row->prefix, symbol->name, length);
        look->present[calls->allocator] = true;
        marks->count++;
    }
    return true;
}

/* jemalloc's rtree (rtree.h), whatever its private prefix. */
static const char *const tree_names[] = {"*arena_emap_global", "*extents_rtree"};
enum { TREES = sizeof tree_names / sizeof tree_names[0] };

/* The names that are wanted, and what was found for each. */
struct wanted {
    struct look *look;
    char names[NAMES_MAX][96];
    const char *patterns[NAMES_MAX + TREES];
    void *found[NAMES_MAX];
    bool ambiguous[NAMES_MAX]; /* two functions of that name: nobody knows which is meant */
    size_t count;              /* of functions; the names of page trees follow */
    const char *tree;
    size_t tree_size;
    bool several_trees;
};

static void see_tree(const struct hf_elf_symbol *symbol, struct wanted *wanted)
{
    if (!symbol->defined || symbol->type != STT_OBJECT)
        return;
    const char *at = (const char *)(wanted->look->map->l_addr + symbol->value);
    wanted->several_trees |= wanted->tree != NULL && wanted->tree != at;
    wanted->tree = at;
    wanted->tree_size = symbol->size;
}

static bool see_function(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct wanted *wanted = context;
    if (pattern >= wanted->count) {
        see_tree(symbol, wanted);
        return true;
    }
    void *code = code_of(wanted->look, symbol);
    if (code == NULL)
        return true;
    wanted->ambiguous[pattern] |= wanted->found[pattern] != NULL && wanted->found[pattern] != code;
    wanted->found[pattern] = code;
    return true;
}

static void want(struct wanted *wanted, const struct marked *row, const char *name)
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

static void *got(const struct wanted *wanted, const struct marked *row, const char *name)
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

/* jemalloc's realloc() of size 0 frees, or allocates, as its options say. */
static bool resizing_frees(void *mallctl)
{
    const char *action = NULL;
    size_t size = sizeof action;
    int result = ((int (*)(const char *, void *, size_t *, void *, size_t))mallctl)(
        "opt.zero_realloc", (void *)&action, &size, NULL, 0);
    return result == 0 && action != NULL && strcmp(action, "free") == 0;
}

static void call_release(const struct functions *functions, void *ptr)
{
    const struct hf_foreign_allocator allocator = {.form = functions->form,
                                                   .release = functions->release};
    hf_foreign_call_free(&allocator, ptr, NULL);
}

static void *allocate(const struct functions *functions, size_t size)
{
    if (functions->allocate != NULL)
        return ((void *(*)(size_t))functions->allocate)(size);
    return ((void *(*)(void *, size_t))functions->realloc)(NULL, size);
}

/* Makes sure that a rtree is what it seems to be: it has blocks of every size that the
 * allocator gives out just now, and nothing that is not the allocator's. `has`: what says so. */
static bool is_tree(const struct hf_rtree *tree, const struct functions *functions,
                    bool (*has)(const struct hf_rtree *tree, const void *ptr))
{
    static const size_t sizes[] = {16, 128, 1024, 8192, 32768, 262144, 2 << 20};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT] = {NULL};
    bool right = !hf_rtree_proves(tree, &blocks) && !hf_rtree_proves(tree, tree->root) &&
                 !hf_rtree_proves(tree, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = allocate(functions, sizes[i]);
        right &= blocks[i] == NULL || has(tree, blocks[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (blocks[i] != NULL)
            call_release(functions, blocks[i]);
    return right && blocks[0] != NULL;
}

static bool find_tree(const struct wanted *wanted, struct functions *functions)
{
    const struct link_map *map = wanted->look->map;
    const char *symbol = wanted->tree;
    return symbol != NULL && !wanted->several_trees && hf_dynlink_find(symbol) == map &&
           wanted->tree_size != 0 && hf_dynlink_find(symbol + wanted->tree_size - 1) == map &&
           hf_rtree_from(symbol, wanted->tree_size, &functions->tree) &&
           is_tree(&functions->tree, functions, hf_rtree_proves);
}

/* The same where the symbol is gone. Trees of 48-bit addresses take 2 MiB of variables, so that few
 * places are left to look at; a program may have much more of its own. */
static bool search_tree(const struct hf_object *object, struct functions *functions)
{
    enum { SEARCH_MAX = 64 << 20, TRIES_MAX = 16 };
    bool found = false;
    void *block = allocate(functions, 1024);
    if (block == NULL)
        return false;
    struct hf_object segments = *object;
    hf_object_segments(&segments);
    for (size_t i = 0; i < segments.writable_count && !found; i++) {
        size_t size = segments.writable[i].size, cursor = 0;
        size = size < SEARCH_MAX ? size : SEARCH_MAX;
        for (int tries = 0; tries < TRIES_MAX && !found &&
                            hf_rtree_search((const void *)segments.writable[i].start, size, block,
                                            &cursor, &functions->tree);
             tries++)
            found = is_tree(&functions->tree, functions, hf_rtree_describes);
    }
    call_release(functions, block);
    return found;
}

static void take_functions(struct look *look, const struct marked *row, const struct wanted *wanted,
                           enum hf_foreign_found where)
{
    static const enum hf_foreign_question kinds[] = {
        [HF_ALLOCATOR_QUESTION_TRUE] = HF_QUESTION_TRUE,
        [HF_ALLOCATOR_QUESTION_ONE] = HF_QUESTION_ONE,
        [HF_ALLOCATOR_QUESTION_SIZE] = HF_QUESTION_SIZE,
    };
    const enum hf_allocator allocator = row->calls->allocator;
    struct functions functions = {.form = HF_FREE_NONE};
    if (look->complete[allocator])
        return;
    functions.question = got(wanted, row, row->calls->question);
    functions.kind = functions.question != NULL ? kinds[row->calls->kind] : HF_QUESTION_NONE;
    functions.realloc = got(wanted, row, row->calls->realloc);
    functions.usable_size = got(wanted, row, row->calls->usable_size);
    for (size_t i = 0; i < hf_allocator_releases_count && functions.release == NULL; i++) {
        const struct hf_allocator_release *release = &hf_allocator_releases[i];
        if (release->allocator != allocator || strcmp(release->mark, row->calls->mark) != 0)
            continue;
        functions.release = got(wanted, row, release->name);
        functions.form = release->form == HF_ALLOCATOR_FORM_FLAGS ? HF_FREE_FLAGS : HF_FREE_PLAIN;
    }
    if (allocator == HF_ALLOCATOR_JEMALLOC) {
        if (functions.release == NULL && functions.realloc != NULL && resizing_frees(row->mark)) {
            functions.release = functions.realloc;
            functions.form = HF_FREE_RESIZE;
        }
        if (functions.release != NULL && functions.realloc != NULL && find_tree(wanted, &functions))
            functions.kind = HF_QUESTION_RTREE;
    }
    if (functions.release == NULL)
        functions.form = HF_FREE_NONE;
    look->functions[allocator] = functions;
    look->found[allocator] = where;
    look->complete[allocator] = functions.release != NULL;
}

static void look_into(struct look *look, struct hf_elf *elf, enum hf_elf_table table,
                      enum hf_foreign_found where)
{
    /* Static, under the loader's lock: whoever calls dlopen() may have a stack of 16 KiB. */
    static const char *patterns[HF_NAMES_MAX];
    static struct hf_names names;
    static struct marks marks;
    static struct wanted wanted;
    size_t count = 0;
    marks.look = look;
    marks.count = 0;
    for (size_t i = 0; i < hf_allocator_patterns_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_patterns[i];
    for (size_t i = 0; i < hf_allocator_calls_count && count < HF_NAMES_MAX; i++)
        patterns[count++] = hf_allocator_calls[i].mark;
    if (hf_names_prepare(&names, patterns, count) != 0 ||
        hf_names_visit(&names, elf, table, see_mark, &marks) != 0 || marks.count == 0)
        return;
    memset(&wanted, 0, sizeof wanted);
    wanted.look = look;
    for (size_t i = 0; i < marks.count; i++) {
        const struct marked *row = &marks.rows[i];
        want(&wanted, row, row->calls->question);
        want(&wanted, row, row->calls->realloc);
        want(&wanted, row, row->calls->usable_size);
        for (size_t r = 0; r < hf_allocator_releases_count; r++)
            if (hf_allocator_releases[r].allocator == row->calls->allocator)
                want(&wanted, row, hf_allocator_releases[r].name);
    }
    memcpy(wanted.patterns + wanted.count, tree_names, sizeof tree_names);
    if (hf_names_prepare(&names, wanted.patterns, wanted.count + TREES) != 0 ||
        hf_names_visit(&names, elf, table, see_function, &wanted) != 0)
        return;
    /* In the table's order, not in that of the symbols. */
    for (size_t call = 0; call < hf_allocator_calls_count; call++)
        for (size_t i = 0; i < marks.count; i++)
            if (marks.rows[i].calls == &hf_allocator_calls[call])
                take_functions(look, &marks.rows[i], &wanted, where);
}

/* ---- the file ---- */

/* Whether a file's bytes are what is mapped at that address of the object. */
static bool is_in_memory(const struct link_map *map, struct hf_elf *elf, uint64_t offset,
                         uint64_t address, size_t size)
{
    unsigned char bytes[512];
    const unsigned char *memory = (const unsigned char *)map->l_addr + address;
    if (size > sizeof bytes || hf_dynlink_find(memory) != map ||
        hf_dynlink_find(memory + size - 1) != map)
        return false;
    return hf_elf_read(elf, offset, bytes, size) == 0 && memcmp(bytes, memory, size) == 0;
}

/* The path may lead to another file by now: a wheel was updated, a build went on. */
static bool is_loaded_file(const struct link_map *map, struct hf_elf *elf)
{
    Elf64_Phdr segment;
    bool same = false;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);) {
        if (segment.p_type == PT_LOAD && segment.p_offset == 0) {
            same = is_in_memory(map, elf, 0, segment.p_vaddr, sizeof elf->header);
            if (!same)
                return false;
        }
        if ((segment.p_type == PT_DYNAMIC &&
             map->l_addr + segment.p_vaddr != (uintptr_t)map->l_ld) ||
            (segment.p_type == PT_NOTE && segment.p_filesz != 0 && segment.p_filesz <= 512 &&
             !is_in_memory(map, elf, segment.p_offset, segment.p_vaddr, segment.p_filesz)))
            return false;
    }
    return same;
}

/* Debug files that lie beside their object, where debuggers look too: NAME.debug and
 * .debug/NAME.debug. The build id decides. */
static bool open_debug_beside(struct hf_elf *debug, struct hf_elf *elf, const char *path)
{
    unsigned char wanted[64], has[64];
    size_t size = hf_elf_build_id(elf, wanted, sizeof wanted);
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path) : 0;
    const char *name = slash != NULL ? slash + 1 : path;
    for (int i = 0; i < 2 && size != 0; i++) {
        static char beside[4096]; /* under the loader's lock; stacks can be small */
        int length =
            i == 0 ? snprintf(beside, sizeof beside, "%s.debug", path)
                   : snprintf(beside, sizeof beside, "%.*s/.debug/%s.debug", folder, path, name);
        if (length <= 0 || (size_t)length >= sizeof beside || hf_elf_open(debug, beside) != 0)
            continue;
        if (hf_elf_build_id(debug, has, sizeof has) == size && memcmp(wanted, has, size) == 0)
            return true;
        hf_elf_close(debug);
    }
    return false;
}

static void look_into_file(struct look *look)
{
    struct hf_elf elf, debug;
    const char *path = look->map->l_name;
    if (path == NULL || path[0] == '\0')
        path = "/proc/self/exe";
    if (hf_elf_open(&elf, path) != 0)
        return;
    look->file = &elf;
    if (is_loaded_file(look->map, &elf)) {
        look_into(look, &elf, HF_ELF_DYNSYM, HF_FOUND_EXPORTED);
        if (hf_elf_symbol_count(&elf, HF_ELF_SYMTAB) != 0) {
            look_into(look, &elf, HF_ELF_SYMTAB, HF_FOUND_LOCAL);
        } else if (hf_elf_open_debug(&debug, &elf, NULL) == 0 ||
                   open_debug_beside(&debug, &elf, path)) {
            look_into(look, &debug, HF_ELF_SYMTAB, HF_FOUND_DEBUG);
            hf_elf_close(&debug);
        }
    }
    look->file = NULL;
    hf_elf_close(&elf);
}

/* ---- publishing ---- */

/* The interpreter's own allocator has another seam (loader/python/), and 3.13 carries a mimalloc
 * besides, for builds without the GIL: its pages must not be taken for that one's. */
static bool is_interpreter(const struct hf_object *object)
{
    return hf_object_symbol(object, "PyMem_SetAllocator") != NULL;
}

/* An allocator that is exported is found without reading the file. */
static bool exports_allocator(const struct hf_object *object)
{
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const char *mark = hf_allocator_calls[i].mark;
        if (hf_object_symbol(object, mark[0] == '*' ? mark + 1 : mark) != NULL)
            return true;
    }
    return false;
}

static bool needs(const struct hf_object *object, const char *soname)
{
    for (const ElfW(Dyn) *d = object->map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && d->d_un.d_val < object->strings_size &&
            strcmp(object->strings + d->d_un.d_val, soname) == 0)
            return true;
    return false;
}

/* Whether the process's free() is that of a wrapper that was linked to this object: then a block
 * may be the wrapper's, although the object's own free() comes behind libc's. */
static bool is_wrapped(const struct hf_object *object)
{
    struct hf_object wrapper;
    const struct link_map *map = object->map;
    while (map->l_prev != NULL)
        map = map->l_prev;
    for (; map != NULL && map != object->map; map = map->l_next)
        if (hf_dynlink_open(map, &wrapper) && hf_object_address(&wrapper, "free") != NULL)
            return object->soname != NULL && hf_object_role(&wrapper) == HF_ROLE_ORDINARY &&
                   !hf_foreign_lives_in(map) && needs(&wrapper, object->soname);
    return false;
}

/* What the process takes from an object: definitions in front of libc's. */
static enum hf_foreign_serves serves(const struct hf_object *object)
{
    if (is_wrapped(object))
        return HF_SERVES_PROCESS;
    bool frees = hf_object_address(object, "free") != NULL;
    if ((!frees && hf_object_address(object, "_ZdlPv") == NULL) || !hf_object_is_early(object->map))
        return HF_SERVES_NOTHING;
    return frees ? HF_SERVES_PROCESS : HF_SERVES_OPERATORS;
}

/* Makes sure that the object stays, whose functions may be called from now on. The program has no
 * name by which the loader would find it, and what it started with is never unloaded. */
static bool stays(const struct hf_object *object)
{
    if (object->map->l_prev == NULL || hf_object_is_early(object->map))
        return true;
    return dlopen(hf_dynlink_name(object->map), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

/* Whoever exports free(), or operator delete, can be called whatever symbols are left: for the one
 * allocator inside that has nothing better. */
static void take_exported(const struct hf_object *object, struct look *look)
{
    struct functions *functions = NULL;
    struct functions exported = {
        .allocate = hf_object_address(object, "malloc"),
        .realloc = hf_object_address(object, "realloc"),
        .usable_size = hf_object_address(object, "malloc_usable_size"),
        .release = hf_object_address(object, "free"),
        .form = HF_FREE_PLAIN,
        .kind = HF_QUESTION_NONE,
    };
    if (exported.release == NULL)
        exported = (struct functions){
            .allocate = hf_object_address(object, "_Znwm"),
            .release = hf_object_address(object, "_ZdlPv"),
            .form = HF_FREE_PLAIN,
            .kind = HF_QUESTION_NONE,
        };
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        if (!look->present[i])
            continue;
        if (look->complete[i] && look->functions[i].release == exported.release)
            return;
        if (look->complete[i])
            continue;
        if (functions != NULL)
            return; /* two, and no telling whose it is */
        functions = &look->functions[i];
        exported.question = functions->question;
        exported.kind = functions->kind;
        look->complete[i] = look->supposed[i] = exported.release != NULL;
        look->found[i] = HF_FOUND_EXPORTED;
    }
    if (functions != NULL && exported.release != NULL)
        *functions = exported;
}

/* Whether what the object exports is the allocator whose pages have this number: a block so large
 * that it is mapped anew has it. Otherwise a release function could lead back to who called it. */
static bool is_exported_ones(unsigned number, const struct functions *functions)
{
    static const size_t sizes[] = {4 << 20, 40 << 20, 200 << 20};
    bool right = false;
    if (functions->allocate == NULL && functions->realloc == NULL)
        return false;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !right; i++) {
        /* operator new throws where there is no room, which it must not do below here. */
        void *room = mmap(NULL, 2 * sizes[i], PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            break;
        munmap(room, 2 * sizes[i]);
        void *block = allocate(functions, sizes[i]);
        right = block != NULL && hf_pagemap_id(block) == number;
        if (block != NULL)
            call_release(functions, block);
    }
    return right;
}

/* Who is in an object whose symbols do not tell, if it serves others: those that cannot be searched
 * for while they map memory, because they have to be called for it. */
static void look_at_exporter(const struct hf_object *object, struct look *look)
{
    bool exports =
        hf_object_address(object, "free") != NULL || hf_object_address(object, "_ZdlPv") != NULL;
    bool any = false;
    if (!exports)
        return;
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
        any |= look->present[i];
    if (!any)
        hf_tracking_search(object->map, look->present);
    take_exported(object, look);
    struct functions *functions = &look->functions[HF_ALLOCATOR_JEMALLOC];
    if (look->complete[HF_ALLOCATOR_JEMALLOC] && functions->kind == HF_QUESTION_NONE &&
        (functions->allocate != NULL || functions->realloc != NULL) &&
        search_tree(object, functions)) {
        functions->kind = HF_QUESTION_RTREE;
        look->supposed[HF_ALLOCATOR_JEMALLOC] = false;
    }
}

static unsigned publish(const struct hf_object *object, struct look *look)
{
    unsigned first = 0, last = 0, count = 0;
    const char *name = hf_keep_name(hf_dynlink_name(object->map));
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
        count += look->present[i];
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        if (!look->present[i])
            continue;
        last = first == 0 ? hf_tracking_number(object->map) : 0;
        if (last == 0 && (last = hf_foreign_reserve()) == 0)
            continue;
        struct functions *functions = &look->functions[i];
        if (first == 0)
            hf_tracking_candidate(object->map, last); /* its pages are recorded from now on */
        first = first == 0 ? last : first;
        /* What serves the process is called by the scope's name, never through here. */
        if (look->supposed[i] && serves(object) != HF_SERVES_PROCESS &&
            !is_exported_ones(first, functions))
            *functions = (struct functions){.form = HF_FREE_NONE};
        struct hf_foreign_allocator allocator = {
            .name = hf_allocator_name((enum hf_allocator)i),
            .object = name,
            .map = object->map,
            .kind = functions->kind,
            .form = functions->form,
            .found = functions->release != NULL ? look->found[i] : HF_FOUND_NOTHING,
            .serves = serves(object),
            .shares = count > 1,
            .question = functions->question,
            .release = functions->release,
            .tree = functions->tree,
            .realloc = (void *(*)(void *, size_t))functions->realloc,
            .usable_size = (size_t(*)(const void *))functions->usable_size,
        };
        hf_foreign_publish(last, &allocator);
    }
    return first;
}

void hf_finding_look(const struct hf_object *object, const struct hf_imports *imports)
{
    /* Nearly every object ends here: who maps no memory gives none out. */
    if (!imports->maps)
        return;
    bool candidate = imports->advises || imports->moves_break;
    if ((!candidate && !exports_allocator(object)) || hf_tracking_is_candidate(object->map) ||
        is_interpreter(object))
        return;
    struct look look = {.map = object->map};
    look_into_file(&look);
    look_at_exporter(object, &look);
    bool any = false, silent = false;
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        any |= look.present[i];
        silent |= look.present[i] && look.functions[i].kind == HF_QUESTION_NONE;
    }
    unsigned number = 0;
    if (any && stays(object)) {
        number = publish(object, &look);
        if (number != 0 && serves(object) != HF_SERVES_PROCESS)
            hf_asking_begin();
    }
    /* Who can be asked answers for what came from the break, too. */
    if (imports->moves_break && (!any || silent))
        hf_tracking_break_is_shared();
    hf_tracking_candidate(object->map, number);
}

/* ---- telling ---- */

const char *hf_finding_remark(const struct link_map *map)
{
    char text[512] = "";
    size_t length = 0;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->map != map || allocator->serves == HF_SERVES_PROCESS ||
            length >= sizeof text)
            continue;
        bool home = allocator->form != HF_FREE_NONE;
        int added = snprintf(
            text + length, sizeof text - length, "%san allocator lives inside: %s; its blocks %s%s",
            length != 0 ? "; " : "", allocator->name,
            home ? "go home to it, whoever frees them"
                 : "cannot be sent home: no function of its can be called",
            home && !hf_object_is_early(map)
                ? "; the object stays loaded after dlclose(), because its functions are called"
                : "");
        length += added > 0 ? (size_t)added : 0;
    }
    return length != 0 ? hf_keep_name(text) : NULL;
}
