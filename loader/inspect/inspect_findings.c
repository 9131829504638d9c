/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of inspect; see inspect_findings.h. Owns nothing beyond a call, and may run in several
 * threads at once.
 */
#include "loader/inspect/inspect_findings.h"

#include "loader/foreign/allocator_strings.h"
#include "loader/inspect/module_functions.h"

#include <homefree/homefree.h>

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#    define NATIVE_MACHINE EM_AARCH64
#    define NATIVE_NAME    "aarch64"
#else
#    define NATIVE_MACHINE EM_X86_64
#    define NATIVE_NAME    "x86-64"
#endif

enum { MESSAGE_LONGEST = 512 };

__attribute__((format(printf, 3, 4))) static struct hf_inspection_finding *
find(struct hf_gather *gather, enum hf_rule rule, const char *format, ...)
{
    struct hf_inspection *inspection = gather->inspection;
    char message[MESSAGE_LONGEST];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *copy = hf_inspection_copy(inspection, message);
    const size_t capacity = sizeof inspection->findings / sizeof inspection->findings[0];
    if (copy == NULL || inspection->findings_count == capacity) {
        gather->out_of_memory = true;
        return &gather->spare;
    }
    struct hf_inspection_finding *finding = &inspection->findings[inspection->findings_count++];
    finding->rule = rule;
    finding->message = copy;
    return finding;
}

static void add_names(struct hf_gather *gather, struct hf_inspection_finding *finding,
                      const struct hf_kept_names *names)
{
    if (gather->out_of_memory)
        return;
    finding->count = names->count;
    hf_gather_copy(gather, names, finding->names, &finding->names_count);
}

/* Whether a file is named like a Python module: its suffix names an interpreter or a stable ABI.
 * From CPython 3.16 on, the machine may follow the latter: ".abi3-x86_64-linux-gnu.so". */
static bool is_tagged(const char *base)
{
    static const char *const tags[] = {".cpython-", ".abi3.", ".abi3-",  ".abi3t.",
                                       ".abi3t-",   ".pypy",  ".graalpy"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (strstr(base, tags[i]) != NULL)
            return true;
    return false;
}

/* The minor version of the CPython 3 that a file is named for; UINT_MAX if it names none. */
static unsigned tagged_minor(const char *base)
{
    static const char tag[] = ".cpython-3";
    const char *found = strstr(base, tag);
    if (found == NULL)
        return UINT_MAX;
    const char *digits = found + sizeof tag - 1;
    char *end = NULL;
    const unsigned long minor = strtoul(digits, &end, 10);
    return end == digits || minor > UINT_MAX ? UINT_MAX : (unsigned)minor;
}

/* Whether the module has a function that the CPython calls that the file is named for. */
static bool has_called_function(const struct hf_gather *gather, unsigned minor)
{
    for (int i = 0; i < HF_MODULE_FUNCTION_COUNT; i++)
        if ((gather->functions_of_module & 1U << i) != 0 && hf_module_functions[i].minor <= minor)
            return true;
    return false;
}

static void find_module(struct hf_gather *gather)
{
    const char *base = basename(gather->inspection->path);
    int length = (int)strcspn(base, ".");
    bool plain = true;
    for (int i = 0; i < length; i++)
        plain &= (unsigned char)base[i] < 0x80;
    if (gather->inspection->kind != HF_KIND_SHARED_OBJECT || !is_tagged(base))
        return;
    const unsigned minor = tagged_minor(base);
    length = length < 100 ? length : 100;
    if (gather->module_fits && !has_called_function(gather, minor))
        find(gather, HF_RULE_NO_INIT_FUNCTION,
             "it is named for CPython 3.%u, which does not call its %.100s; it exports no %s_%.*s",
             minor, gather->init, hf_module_functions[HF_MODULE_FUNCTION_INIT].name, length, base);
    else if (!gather->module_fits && plain)
        find(gather, HF_RULE_NO_INIT_FUNCTION,
             "it is named like a Python module but exports no %s_%.*s and no %s_%.*s",
             hf_module_functions[HF_MODULE_FUNCTION_INIT].name, length, base,
             hf_module_functions[HF_MODULE_FUNCTION_EXPORT].name, length, base);
    else if (!gather->module_fits && gather->modules == 0)
        find(gather, HF_RULE_NO_INIT_FUNCTION,
             "it is named like a Python module but exports no function for Python to call");
}

static void find_machine(struct hf_gather *gather)
{
    if (gather->elf->header.e_machine != NATIVE_MACHINE)
        find(gather, HF_RULE_MACHINE, "the file is built for %s; this machine is " NATIVE_NAME,
             gather->inspection->machine);
}

static void find_kind(struct hf_gather *gather)
{
    static const char *const kinds[] = {[ET_NONE] = "a file of no type",
                                        [ET_REL] = "an object file",
                                        [ET_EXEC] = "a program",
                                        [ET_DYN] = "a file without a dynamic section",
                                        [ET_CORE] = "a core file"};
    const unsigned type = gather->elf->header.e_type;
    if (gather->inspection->kind == HF_KIND_PROGRAM)
        find(gather, HF_RULE_KIND, "it is a program");
    else if (gather->inspection->kind == HF_KIND_OTHER)
        find(gather, HF_RULE_KIND, "it is %s",
             type < sizeof kinds / sizeof kinds[0] ? kinds[type] : "a file of an unknown type");
}

static void find_homefree(struct hf_gather *gather, const struct hf_inspect_versions *versions)
{
    static const unsigned ours[2] = {HF_VERSION_MAJOR, HF_VERSION_MINOR};
    if (versions->homefree.name != NULL && hf_inspect_is_newer(versions->homefree.numbers, ours))
        find(gather, HF_RULE_HOMEFREE, "it needs %.100s; this is homefree " HF_VERSION,
             versions->homefree.name);
}

static void find_tls(struct hf_gather *gather)
{
    struct hf_inspection *inspection = gather->inspection;
    struct hf_elf_tls tls;
    if (hf_elf_tls(gather->elf, &tls)) {
        inspection->tls_size = tls.size;
        inspection->tls_static = tls.initial_exec;
    }
    const uint64_t own = inspection->tls_static ? tls.size : 0, all = own + inspection->tls_needed;
    if (all <= HF_STATIC_TLS_OPTIONAL)
        return;
    const enum hf_rule rule =
        all > HF_STATIC_TLS_LATE ? HF_RULE_STATIC_TLS_TOO_LARGE : HF_RULE_STATIC_TLS;
    if (inspection->tls_needed == 0)
        find(gather, rule,
             "it needs %" PRIu64
             " bytes of static TLS; glibc reserves %d for all late-loaded libraries",
             all, HF_STATIC_TLS_LATE);
    else
        find(gather, rule,
             "with the libraries that it needs (most for %.100s) it takes %" PRIu64
             " bytes of static TLS; glibc reserves %d for all late-loaded libraries",
             inspection->tls_largest, all, HF_STATIC_TLS_LATE);
}

static void find_segments(struct hf_gather *gather)
{
    Elf64_Phdr segment;
    bool stack = false, executable = false;
    for (size_t cursor = 0; hf_elf_segment(gather->elf, &cursor, &segment);)
        if (segment.p_type == PT_GNU_STACK) {
            stack = true;
            executable = (segment.p_flags & PF_X) != 0;
        }
    /* Without the header the stack is executable on x86-64 (glibc's DEFAULT_STACK_PERMS), but not
     * on aarch64. */
    if (executable)
        find(gather, HF_RULE_EXECUTABLE_STACK, "it asks for an executable stack");
    else if (!stack && gather->elf->header.e_machine == EM_X86_64)
        find(gather, HF_RULE_EXECUTABLE_STACK,
             "it does not rule out an executable stack (PT_GNU_STACK is missing)");
    uint64_t value = 0;
    if (hf_elf_tag(gather->elf, DT_TEXTREL, &value) ||
        (hf_elf_tag(gather->elf, DT_FLAGS, &value) && (value & DF_TEXTREL) != 0))
        find(gather, HF_RULE_TEXT_RELOCATIONS, "it has relocations in its code");
}

static void find_members(struct hf_gather *gather)
{
    const struct hf_inspection *inspection = gather->inspection;
    for (size_t i = 0; i < inspection->members_count; i++) {
        const struct hf_inspection_member *member = &inspection->members[i];
        char offers[128] = "";
        for (size_t j = 0, at = 0; j < member->offers_count && at < sizeof offers; j++)
            at += (size_t)snprintf(offers + at, sizeof offers - at, "%s%s",
                                   j == 0 ? ", with " : ", ", member->offers[j]);
        find(gather, HF_RULE_MEMBER, "it publishes %s%s%s in the registry%s", member->name,
             member->release != NULL ? " " : "", member->release != NULL ? member->release : "",
             offers);
    }
}

/* A member says itself which blocks are its own. */
static void find_allocators(struct hf_gather *gather)
{
    struct hf_inspection *inspection = gather->inspection;
    for (size_t i = 0; i < inspection->allocators_count; i++) {
        const struct hf_inspection_allocator *allocator = &inspection->allocators[i];
        if (allocator->published)
            continue;
        struct hf_kept_names evidence = {.first = {allocator->evidence}, .kept = 1, .count = 1};
        add_names(gather,
                  find(gather, HF_RULE_ALLOCATOR,
                       allocator->by_string  ? "it contains %s (its data has \"%.200s\")"
                       : allocator->exported ? "it contains %s (it defines %.200s, exported)"
                                             : "it contains %s (it defines %.200s, hidden)",
                       hf_allocator_name(allocator->allocator), allocator->evidence),
                  &evidence);
    }
}

static bool has_hidden_allocator(const struct hf_inspection *inspection)
{
    for (size_t i = 0; i < inspection->allocators_count; i++)
        if (!inspection->allocators[i].exported)
            return true;
    return false;
}

/* Calls to a hidden free() use no GOT slot. A stripped file has no symbol for such a free(). The
 * evidence is then a hidden allocator, the absence of an imported or exported free(), and imported
 * functions whose results must be freed. */
static void find_own_free(struct hf_gather *gather)
{
    const struct hf_kept_names *handing = &gather->handing;
    const bool stripped = handing->count > 0 && has_hidden_allocator(gather->inspection);
    if (gather->inspection->kind != HF_KIND_SHARED_OBJECT || gather->other_free ||
        gather->inspection->homefree_linked || (!gather->own_free && !stripped))
        return;
    if (handing->count == 0)
        find(gather, HF_RULE_OWN_FREE, "it calls a free() of its own");
    else
        add_names(
            gather,
            find(gather, HF_RULE_OWN_FREE,
                 "it calls a free() of its own and %zu function%s that hand%s out libc's memory",
                 handing->count, handing->count == 1 ? "" : "s", handing->count == 1 ? "s" : ""),
            handing);
}

/* The shim's functions are hidden, so a module that is linked with it imports none of them, except
 * where another library came before the shim and had the function, too. homefree's own extension
 * calls libc's on purpose. */
static void find_past_homefree(struct hf_gather *gather)
{
    const struct hf_kept_names *names = &gather->allocating;
    if (!gather->inspection->homefree_linked || names->count == 0 ||
        (gather->module != NULL && strcmp(gather->module, "_homefree") == 0))
        return;
    add_names(gather,
              find(gather, HF_RULE_PAST_HOMEFREE,
                   "it imports %zu function%s that allocate%s and that homefree's shim has",
                   names->count, names->count == 1 ? "" : "s", names->count == 1 ? "s" : ""),
              names);
}

static void find_exports(struct hf_gather *gather)
{
    if (gather->functions.count > 0)
        add_names(gather,
                  find(gather, HF_RULE_EXPORTED_ALLOCATOR, "it exports %zu allocator function%s",
                       gather->functions.count, gather->functions.count == 1 ? "" : "s"),
                  &gather->functions);
    if (gather->module != NULL && gather->exports.count > 0)
        add_names(gather,
                  find(gather, HF_RULE_EXPORTS, "it exports %zu symbol%s besides %.100s",
                       gather->exports.count, gather->exports.count == 1 ? "" : "s", gather->init),
                  &gather->exports);
}

static void list_state(const struct hf_inspection *inspection,
                       enum hf_inspection_library_state state, struct hf_kept_names *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < inspection->libraries_count; i++)
        if (inspection->libraries[i].state == state)
            hf_gather_keep(out, inspection->libraries[i].name);
}

static void find_libraries(struct hf_gather *gather)
{
    struct hf_kept_names names;
    list_state(gather->inspection, HF_LIBRARY_UNUSED, &names);
    if (names.count > 0)
        add_names(gather,
                  find(gather, HF_RULE_UNUSED_LIBRARY, "it imports nothing from %zu librar%s",
                       names.count, names.count == 1 ? "y" : "ies"),
                  &names);
    list_state(gather->inspection, HF_LIBRARY_NOT_FOUND, &names);
    if (names.count > 0)
        add_names(gather,
                  find(gather, HF_RULE_LIBRARY_NOT_FOUND, "%zu librar%s that it needs %s not found",
                       names.count, names.count == 1 ? "y" : "ies",
                       names.count == 1 ? "was" : "were"),
                  &names);
}

void hf_gather_find(struct hf_gather *gather, const struct hf_inspect_versions *versions)
{
    find_machine(gather);
    find_kind(gather);
    find_homefree(gather, versions);
    find_tls(gather);
    find_module(gather);
    if (gather->inspection->kind == HF_KIND_SHARED_OBJECT)
        find_segments(gather);
    find_allocators(gather);
    if (!gather->inspection->homefree_itself) {
        find_members(gather);
        find_own_free(gather);
        find_past_homefree(gather);
        find_exports(gather);
    }
    find_libraries(gather);
}

void hf_gather_find_machine(struct hf_gather *gather, const char *why)
{
    find(gather, HF_RULE_MACHINE, "it is %s; this machine is " NATIVE_NAME, why);
}
