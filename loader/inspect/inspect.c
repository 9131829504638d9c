/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the facts about one file; see inspect.h. Owns nothing beyond a call, and may run in
 * several threads at once.
 */
#include "loader/inspect/inspect.h"

#include "loader/inspect/inspect_findings.h"
#include "loader/inspect/module_functions.h"

#include "loader/foreign/allocator_strings.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Limits above what any linker produces; larger tables would only cost time. */
enum { LIBRARIES_MAX = 256, NEEDED_MAX = 4096 };

const struct hf_rule_text hf_rules[HF_RULE_COUNT] = {
#define HF_RULE(id, name, severity, explanation, remedy) \
    {name, HF_SEVERITY_##severity, explanation, remedy},
#include "loader/inspect/rules.def"
#undef HF_RULE
};

const char *hf_severity_name(enum hf_severity severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return names[severity];
}

/* ---- one pass over the symbols -------------------------------------------------------------- */

/* Records an allocator. Its evidence is the matching symbol that comes first in the table of
 * patterns. */
static void note_allocator(struct hf_gather *gather, size_t pattern, const char *symbol,
                           bool exported)
{
    struct hf_inspection *inspection = gather->inspection;
    const enum hf_allocator allocator = hf_allocator_pattern_owners[pattern];
    size_t at = 0;
    while (at < inspection->allocators_count && inspection->allocators[at].allocator != allocator)
        at++;
    struct hf_inspection_allocator *found = &inspection->allocators[at];
    if (at < inspection->allocators_count) {
        found->exported |= exported;
        if (gather->evidence[at] <= pattern)
            return;
    }
    const size_t length = hf_allocator_prefix(hf_allocator_patterns[pattern], symbol);
    const char *evidence = hf_inspection_copy(inspection, symbol);
    char *prefix = hf_inspection_allocate(inspection, length + 1);
    if (evidence == NULL || prefix == NULL) {
        gather->out_of_memory = true;
        return;
    }
    memcpy(prefix, symbol, length);
    if (at == inspection->allocators_count) {
        found->exported = exported;
        inspection->allocators_count++;
    }
    found->allocator = allocator;
    found->evidence = evidence;
    found->prefix = prefix;
    gather->evidence[at] = pattern;
}

/* Whether it is a symbol that linkers and the compiler's start files export from every object. */
static bool is_linkers(const struct hf_elf_symbol *symbol)
{
    static const char *const names[] = {
        "_init",       "_fini",         "_edata",      "_end",
        "__bss_start", "__bss_start__", "__bss_end__", "_bss_end__",
        "__end__",     "__data_start",  "_DYNAMIC",    "_GLOBAL_OFFSET_TABLE_",
    };
    /* Version nodes are absolute symbols. */
    if (symbol->section == SHN_ABS)
        return true;
    /* Nearly all names in a C++ library begin with _Z. */
    if (symbol->name[0] != '_' || symbol->name[1] == 'Z')
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(symbol->name, names[i]) == 0)
            return true;
    return false;
}

/* Whether the module's name is the file's name up to the first dot, which is the name that Python
 * imports. */
static bool is_files_name(const struct hf_gather *gather, const char *module)
{
    const char *base = basename(gather->inspection->path);
    const size_t length = strcspn(base, ".");
    return strncmp(module, base, length) == 0 && module[length] == '\0';
}

/* A module may have several functions; each of them counts as one only if the name is another. */
static void note_module(struct hf_gather *gather, const char *init,
                        enum hf_module_function function, const char *module)
{
    const bool fits = is_files_name(gather, module);
    const bool same = gather->module != NULL && strcmp(gather->module, module) == 0;
    if (!same)
        gather->modules++;
    if (gather->module == NULL || (fits && !gather->module_fits)) {
        gather->init = init;
        gather->module = module;
        gather->module_fits = fits;
        gather->functions_of_module = 0;
    } else if (!same) {
        return;
    }
    gather->functions_of_module |= 1U << function;
    /* The one that every CPython calls represents them. */
    if (function == HF_MODULE_FUNCTION_INIT)
        gather->init = init;
}

/* A library such as libpython contains the functions of many modules and is not a module. */
static void decide_module(struct hf_gather *gather)
{
    if (!gather->module_fits && gather->modules > 1)
        gather->module = NULL;
    if (gather->inspection->kind != HF_KIND_SHARED_OBJECT)
        gather->module = NULL;
}

static void gather_imported(struct hf_gather *gather, const char *name)
{
    const int pattern = hf_names_match(&gather->matcher, name);
    const enum hf_inspect_name kind = hf_inspect_name_kind(pattern);
    if (kind == HF_NAME_HANDING)
        hf_gather_keep(&gather->handing, name);
    if (kind == HF_NAME_HANDING || kind == HF_NAME_FUNCTION)
        hf_gather_keep(&gather->memory, name);
    if (hf_inspect_name_allocates(pattern))
        hf_gather_keep(&gather->allocating, name);
    gather->other_free |= pattern >= 0 && strcmp(name, "free") == 0;
}

static void gather_defined(struct hf_gather *gather, const struct hf_elf_symbol *symbol)
{
    const bool exported = symbol->binding != STB_LOCAL && (symbol->visibility == STV_DEFAULT ||
                                                           symbol->visibility == STV_PROTECTED);
    const int pattern = hf_names_match(&gather->matcher, symbol->name);
    if (hf_inspect_name_kind(pattern) == HF_NAME_ALLOCATOR)
        note_allocator(gather, (size_t)pattern, symbol->name, exported);
    if (!exported || symbol->type == STT_SECTION || symbol->type == STT_FILE)
        return;
    const char *rest = "";
    const enum hf_module_function function = hf_module_function_of(symbol->name, &rest);
    if (function != HF_MODULE_FUNCTION_NONE) {
        note_module(gather, symbol->name, function, hf_module_function_module(rest));
        gather->inspection->exports++;
        return;
    }
    if (is_linkers(symbol))
        return;
    gather->inspection->exports++;
    if (hf_inspect_name_kind(pattern) == HF_NAME_FUNCTION)
        hf_gather_keep(&gather->functions, symbol->name);
    gather->other_free |= pattern >= 0 && strcmp(symbol->name, "free") == 0;
    hf_gather_keep(&gather->exports, symbol->name);
}

static bool gather_dynamic(const struct hf_elf_symbol *symbol, void *context)
{
    struct hf_gather *gather = context;
    if (symbol->name[0] == '\0')
        return true;
    if (symbol->defined) {
        gather_defined(gather, symbol);
    } else if (symbol->binding != STB_LOCAL) {
        gather->inspection->imports++;
        gather_imported(gather, symbol->name);
        if (symbol->library == NULL && hf_name_set_add(&gather->imports, symbol->name) != 0)
            gather->out_of_memory = true;
    }
    return !gather->out_of_memory;
}

/* .symtab also contains the hidden symbols. */
static bool gather_hidden(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    struct hf_gather *gather = context;
    if (symbol->defined && pattern < hf_allocator_patterns_count)
        note_allocator(gather, pattern, symbol->name, false);
    gather->own_free |= symbol->defined && strcmp(symbol->name, "free") == 0;
    return !gather->out_of_memory;
}

/* ---- facts ---------------------------------------------------------------------------------- */

static bool known_library(const struct hf_inspection *inspection, const char *name)
{
    for (size_t i = 0; i < inspection->libraries_count; i++) {
        const char *known = inspection->libraries[i].name;
        if (known != NULL && strncmp(known, name, HF_INSPECTION_STRING_MAX) == 0)
            return true;
    }
    return false;
}

static int list_libraries(struct hf_elf *elf, struct hf_inspection *inspection)
{
    inspection->libraries =
        hf_inspection_allocate(inspection, LIBRARIES_MAX * sizeof *inspection->libraries);
    if (inspection->libraries == NULL)
        return -ENOMEM;
    const char *name;
    size_t count = 0;
    for (size_t cursor = 0; inspection->libraries_count < LIBRARIES_MAX && count < NEEDED_MAX &&
                            (name = hf_elf_needed(elf, &cursor)) != NULL;
         count++) {
        if (known_library(inspection, name))
            continue;
        const char *copy = hf_inspection_copy(inspection, name);
        if (copy == NULL)
            return -ENOMEM;
        inspection->libraries[inspection->libraries_count++] =
            (struct hf_inspection_library){.name = copy, .state = HF_LIBRARY_UNUSED};
        inspection->homefree_linked |= strncmp(name, "libhomefree.so", 14) == 0;
    }
    return 0;
}

static enum hf_inspection_kind kind_of(struct hf_elf *elf)
{
    uint64_t flags = 0;
    if (elf->header.e_type == ET_EXEC)
        return HF_KIND_PROGRAM;
    if (elf->header.e_type != ET_DYN || hf_elf_dynamic(elf) == -ENOENT)
        return HF_KIND_OTHER;
    if (hf_elf_tag(elf, DT_FLAGS_1, &flags) && (flags & DF_1_PIE) != 0)
        return HF_KIND_PROGRAM;
    return HF_KIND_SHARED_OBJECT;
}

/* ---- inspecting ----------------------------------------------------------------------------- */

/* Identifies allocators whose symbols were stripped by the strings in their data. */
static int gather_strings(struct hf_gather *gather)
{
    struct hf_inspection *inspection = gather->inspection;
    const char *found[HF_ALLOCATOR_COUNT] = {0};
    for (size_t i = 0; i < inspection->allocators_count; i++)
        found[inspection->allocators[i].allocator] = "";
    const int result = hf_elf_scan(gather->elf, found, gather->elf->size);
    for (size_t a = 0; result == 0 && a < HF_ALLOCATOR_COUNT; a++)
        if (found[a] != NULL && found[a][0] != '\0')
            inspection->allocators[inspection->allocators_count++] =
                (struct hf_inspection_allocator){.allocator = (enum hf_allocator)a,
                                                 .by_string = true,
                                                 .evidence = found[a],
                                                 .prefix = ""};
    return result;
}

static int gather_all(struct hf_gather *gather, struct hf_inspect_versions *versions)
{
    struct hf_inspection *inspection = gather->inspection;
    struct hf_elf *elf = gather->elf;
    const char *soname = hf_elf_tag_string(elf, DT_SONAME);
    if (soname != NULL)
        inspection->soname = hf_inspection_copy(inspection, soname);

    int result = list_libraries(elf, inspection);
    if (result == 0)
        result = hf_elf_versions(elf, hf_inspect_version, versions);
    if (result == 0)
        result = hf_inspect_names(&gather->matcher, gather->patterns);
    if (result == 0)
        result = hf_elf_symbols(elf, HF_ELF_DYNSYM, gather_dynamic, gather);
    if (result == 0 || result == -ENOENT)
        result = 0;
    /* The dynamic linker ignores .symtab, so a damaged one counts as none. */
    if (result == 0 && !inspection->homefree_itself)
        hf_names_visit(&gather->matcher, elf, HF_ELF_SYMTAB, gather_hidden, gather);
    if (result == 0 && !inspection->homefree_itself)
        result = gather_strings(gather);
    if (result == 0)
        result = hf_inspect_members(elf, inspection);
    if (result == 0)
        result = hf_inspect_libraries(elf, inspection, &gather->imports);
    decide_module(gather);
    hf_gather_copy(gather, &gather->memory, inspection->allocating, &inspection->allocating_kept);
    inspection->allocating_count = gather->memory.count;
    if (gather->module != NULL)
        inspection->module = hf_inspection_copy(inspection, gather->module);
    if (versions->homefree.name != NULL)
        inspection->homefree_needed = hf_inspection_copy(inspection, versions->homefree.name);
    if (versions->glibc.name != NULL)
        inspection->glibc_needed = hf_inspection_copy(inspection, versions->glibc.name);
    /* Wheels rename the copy that they bundle, so the version node identifies it. */
    inspection->homefree_linked |= versions->homefree.name != NULL;
    if (inspection->homefree_itself) {
        inspection->allocators_count = 0;
        inspection->homefree_linked = false;
    }
    return gather->out_of_memory ? -ENOMEM : result;
}

static int begin(struct hf_inspection *out, const char *path)
{
    memset(out, 0, sizeof *out);
    out->kind = HF_KIND_OTHER;
    out->machine = "unknown";
    out->path = hf_inspection_copy(out, path);
    return out->path != NULL ? 0 : -ENOMEM;
}

static int fail(struct hf_inspection *out, int result, const char *why)
{
    hf_inspection_free(out);
    out->why = result == -ENOMEM ? "out of memory" : why;
    return result;
}

static int inspect_elf(struct hf_elf *elf, const char *path,
                       const struct hf_inspection_files *files, struct hf_inspection *out)
{
    int result = begin(out, path);
    struct hf_gather *gather = result == 0 ? calloc(1, sizeof *gather) : NULL;
    if (gather == NULL)
        return fail(out, -ENOMEM, NULL);
    out->files = files;
    gather->inspection = out;
    gather->elf = elf;
    elf->why = NULL;
    out->machine = elf->header.e_machine == EM_AARCH64 ? "aarch64" : "x86-64";
    out->kind = kind_of(elf);
    struct hf_inspect_versions versions = {.inspection = out};
    if (hf_elf_dynamic(elf) == 0)
        result = gather_all(gather, &versions);
    else if (out->kind == HF_KIND_SHARED_OBJECT)
        result = hf_elf_dynamic(elf);
    if (result == 0)
        hf_gather_find(gather, &versions);
    if (result == 0 && gather->out_of_memory)
        result = -ENOMEM;
    /* What was not read may hold a finding, and what was may be too little for one. */
    if (elf->trouble != 0) {
        result = elf->trouble;
        elf->why = "it cannot be read as a whole";
    }
    hf_name_set_free(&gather->imports);
    free(gather);
    out->files = NULL;
    return result == 0 ? 0 : fail(out, result, elf->why != NULL ? elf->why : "it is damaged");
}

/* Reports a file that the reader refused because it is for another machine. */
static int inspect_other_machine(const char *path, const char *why, struct hf_inspection *out)
{
    if (begin(out, path) != 0)
        return fail(out, -ENOMEM, NULL);
    struct hf_gather gather = {.inspection = out};
    hf_gather_find_machine(&gather, why);
    return gather.out_of_memory ? fail(out, -ENOMEM, NULL) : 0;
}

int hf_inspect_among(const char *path, const struct hf_inspection_files *files,
                     struct hf_inspection *out)
{
    struct hf_elf elf = {.descriptor = -1};
    memset(out, 0, sizeof *out);
    const int opened = hf_inspection_open(&elf, path, files);
    if (opened == -ENOTSUP)
        return inspect_other_machine(path, elf.why, out);
    if (opened != 0)
        return fail(out, opened, elf.why);
    const int result = inspect_elf(&elf, path, files, out);
    hf_elf_close(&elf);
    return result;
}

int hf_inspect(const char *path, struct hf_inspection *out)
{
    return hf_inspect_among(path, NULL, out);
}

int hf_inspect_elf(struct hf_elf *elf, const char *path, struct hf_inspection *out)
{
    return inspect_elf(elf, path, NULL, out);
}
