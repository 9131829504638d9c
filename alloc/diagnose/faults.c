/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See faults.h. Owns the constant table of which function frees which kind of block.
 */
#include "alloc/diagnose/faults.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/libc_functions.h"
#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/python_calls.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/unloaded.h"
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "alloc/owner/deep_objects.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/libc_heap.h"
#include "alloc/owner/owner.h"
#include "alloc/space/space_calls.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define KIND(kind)         (1U << HF_BLOCK_##kind)
#define ANY_KIND           0xff
#define FROM_MALLOC        (KIND(ANY) | KIND(MALLOC))
#define FROM_NEW           (KIND(ANY) | KIND(NEW))
#define FROM_ARRAY         (KIND(ANY) | KIND(NEW_ARRAY))
#define FROM_NEW_ALIGNED   (KIND(ANY) | KIND(NEW_ALIGNED))
#define FROM_ARRAY_ALIGNED (KIND(ANY) | KIND(NEW_ARRAY_ALIGNED))
/* Another allocator's functions. An object that calls those may have got that allocator's
 * operators, had homefree's not come first, but not its malloc. */
#define NOT_MALLOC         (ANY_KIND & ~KIND(MALLOC))
#define FROM_PYTHON_MEM    (KIND(ANY) | KIND(PYTHON_MEM))
#define FROM_PYTHON_OBJECT (KIND(ANY) | KIND(PYTHON_OBJECT))

const uint8_t hf_fault_frees[HF_FUNCTION_COUNT] = {
    [HF_FUNCTION_unknown] = ANY_KIND,
    [HF_FUNCTION_realloc] = FROM_MALLOC,
    [HF_FUNCTION_reallocarray] = FROM_MALLOC,
    [HF_FUNCTION_free] = FROM_MALLOC,
    [HF_FUNCTION_cfree] = FROM_MALLOC,
    [HF_FUNCTION_free_sized] = FROM_MALLOC,
    [HF_FUNCTION_free_aligned_sized] = FROM_MALLOC,
    [HF_FUNCTION__ZdlPv] = FROM_NEW,
    [HF_FUNCTION__ZdlPvm] = FROM_NEW,
    [HF_FUNCTION__ZdlPvRKSt9nothrow_t] = FROM_NEW,
    [HF_FUNCTION__ZdaPv] = FROM_ARRAY,
    [HF_FUNCTION__ZdaPvm] = FROM_ARRAY,
    [HF_FUNCTION__ZdaPvRKSt9nothrow_t] = FROM_ARRAY,
    [HF_FUNCTION__ZdlPvSt11align_val_t] = FROM_NEW_ALIGNED,
    [HF_FUNCTION__ZdlPvmSt11align_val_t] = FROM_NEW_ALIGNED,
    [HF_FUNCTION__ZdlPvSt11align_val_tRKSt9nothrow_t] = FROM_NEW_ALIGNED,
    [HF_FUNCTION__ZdaPvSt11align_val_t] = FROM_ARRAY_ALIGNED,
    [HF_FUNCTION__ZdaPvmSt11align_val_t] = FROM_ARRAY_ALIGNED,
    [HF_FUNCTION__ZdaPvSt11align_val_tRKSt9nothrow_t] = FROM_ARRAY_ALIGNED,
    [HF_FUNCTION_PyMem_RawRealloc] = FROM_MALLOC,
    [HF_FUNCTION_PyMem_RawFree] = FROM_MALLOC,
    [HF_FUNCTION_PyMem_Realloc] = FROM_PYTHON_MEM,
    [HF_FUNCTION_PyMem_Free] = FROM_PYTHON_MEM,
    [HF_FUNCTION_PyObject_Realloc] = FROM_PYTHON_OBJECT,
    [HF_FUNCTION_PyObject_Free] = FROM_PYTHON_OBJECT,
    /* Functions of homefree take every block. */
    [HF_FUNCTION_hf_malloc] = ANY_KIND,
    [HF_FUNCTION_hf_realloc] = ANY_KIND,
    [HF_FUNCTION_hf_free] = ANY_KIND,
    [HF_FUNCTION_hf_allocate] = ANY_KIND,
#define HF_NAMED_RELEASES(id, allocator, name, parameters, arguments) \
    [HF_FUNCTION_##name] = NOT_MALLOC,
#include "shim/functions.def"
};

/* The functions of other allocators' interfaces. */
static const struct {
    enum hf_report_function function;
    const char *name, *allocator;
} named[] = {
#define HF_NAMED_RELEASES(id, allocator, name, parameters, arguments) \
    {HF_FUNCTION_##name, #name, #allocator},
#include "shim/functions.def"
};
enum { NAMED_COUNT = sizeof named / sizeof named[0] };

enum hf_report_function hf_fault_function(const char *name)
{
    for (size_t i = 0; i < NAMED_COUNT; i++)
        if (strcmp(named[i].name, name) == 0)
            return named[i].function;
    return HF_FUNCTION_unknown;
}

/* The allocator whose function this is; NULL for the process's functions. */
static const char *interface_of(enum hf_report_function function)
{
    for (size_t i = 0; i < NAMED_COUNT; i++)
        if (named[i].function == function)
            return named[i].allocator;
    return NULL;
}

/* Whether an allocator of this name would serve the process without homefree: its functions take
 * what malloc returns. */
static bool would_serve(const char *name)
{
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator != NULL && allocator->displaced && strcmp(allocator->name, name) == 0)
            return true;
    }
    return false;
}

static const char heap_name[] = "heap";

static bool is_array(enum hf_block_kind kind)
{
    return kind == HF_BLOCK_NEW_ARRAY || kind == HF_BLOCK_NEW_ARRAY_ALIGNED;
}

static bool is_delete(enum hf_report_function function)
{
    return function >= HF_FUNCTION__ZdlPv &&
           function <= HF_FUNCTION__ZdaPvSt11align_val_tRKSt9nothrow_t;
}

static bool is_python_kind(enum hf_block_kind kind)
{
    return kind == HF_BLOCK_PYTHON_MEM || kind == HF_BLOCK_PYTHON_OBJECT;
}

static bool is_python_call(enum hf_report_function function)
{
    return function >= HF_FUNCTION_PyMem_RawMalloc && function <= HF_FUNCTION_PyObject_Free;
}

/* The rule that a free of the wrong kind breaks. */
static enum hf_report_rule rule_of(enum hf_block_kind kind, enum hf_report_function function)
{
    if (is_python_kind(kind) || is_python_call(function))
        return HF_FAULT_DOMAIN_MISMATCH;
    if (kind == HF_BLOCK_MALLOC)
        return HF_FAULT_MALLOC_DELETE;
    if (!is_delete(function))
        return HF_FAULT_NEW_FREE;
    uint8_t frees = hf_fault_frees[function];
    bool deletes_array = (frees & (KIND(NEW_ARRAY) | KIND(NEW_ARRAY_ALIGNED))) != 0;
    return deletes_array != is_array(kind) ? HF_FAULT_ARRAY_NEW_DELETE : HF_FAULT_ALIGNED_DELETE;
}

/* Whether an address lies in an exported operator of its object. */
static bool is_in_operator(const struct link_map *map, const void *caller)
{
    static const char *const names[] = {
#define HF_NEW(symbol, nothrow, aligned) #symbol,
#define HF_DELETE(symbol, ...)           #symbol,
#include "shim/functions.def"
    };
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const ElfW(Sym) *symbol = hf_object_symbol(&object, names[i]);
        /* The return address of the last call lies behind the function. */
        if (symbol != NULL &&
            (uintptr_t)caller - 1 - (map->l_addr + symbol->st_value) < (uintptr_t)symbol->st_size)
            return true;
    }
    return false;
}

/* Whether another function was called than the one that was seen: by an object whose operators are
 * the C++ runtime's, or its own, which then called malloc, free or another operator. An object that
 * was unloaded, or did not fit into the report, may have been such a one. */
static bool is_indirect(uint32_t site)
{
    enum hf_report_function function;
    const void *caller = hf_site_address(site, &function);
    const struct link_map *map = caller != NULL ? hf_dynlink_find_fast(caller) : NULL;
    if (map == NULL)
        return hf_deep_any();
    return hf_deep_has(map) || is_in_operator(map, caller);
}

void hf_fault_check(const void *ptr, struct hf_footer footer, size_t asked, struct hf_stated stated,
                    enum hf_report_function function, uint32_t freed_site)
{
    struct hf_event event = {
        .ptr = ptr,
        .allocator = heap_name,
        .allocated_site = footer.site,
        .freed_site = freed_site,
        .bytes = asked != SIZE_MAX ? asked : 0,
    };
    const char *interface = interface_of(function);
    if (interface != NULL) {
        event.rule = HF_FAULT_FOREIGN_FREE;
        if (!hf_fault_free_fits(footer.kind, function) && !would_serve(interface))
            hf_finding(&event);
        return;
    }
    if (!hf_fault_free_fits(footer.kind, function)) {
        if (is_python_kind(footer.kind) && !hf_python_is_watched())
            return;
        event.rule = rule_of(footer.kind, function);
        if (!is_indirect(footer.site) && !is_indirect(freed_site))
            hf_finding(&event);
        return; /* what else is wrong follows from that */
    }
    if (stated.size != NULL && asked != SIZE_MAX && *stated.size != asked) {
        event.rule = HF_FAULT_SIZED_DELETE;
        event.asked = asked;
        event.said = *stated.size;
        hf_finding(&event);
    }
    if (stated.alignment != NULL &&
        (*stated.alignment == 0 || (uintptr_t)ptr % *stated.alignment != 0)) {
        event.rule = HF_FAULT_ALIGNED_DELETE;
        event.asked = 0;
        event.said = *stated.alignment;
        hf_finding(&event);
    }
}

/* ---- hosted allocators: CPython's pymalloc, spaces, CUDA's memory of others ---- */

/* Whether the call comes from homefree's own functions, by which the hooks of homefree.install()
 * free what they are asked to. */
static bool is_ours(uint32_t site)
{
    enum hf_report_function function;
    (void)hf_site_address(site, &function);
    return function >= HF_FUNCTION_hf_malloc && function <= HF_FUNCTION_hf_allocate;
}

/* Whether CPython's allocator passes a block on that the interpreter has asked it to free or to
 * resize: in its own code, or by a jump from there, which the hook called. */
static bool is_passed_on(const void *ptr, uint32_t freed_site)
{
    enum hf_report_function function;
    const void *caller = hf_site_address(freed_site, &function);
    if (hf_python_call.ptr != ptr || caller == NULL ||
        (function != HF_FUNCTION_PyMem_RawFree && function != HF_FUNCTION_PyMem_RawRealloc))
        return false;
    const struct link_map *object = hf_dynlink_find((const char *)caller - 1);
    return object == hf_dynlink_find(hf_python_code) || object == hf_dynlink_find(hf_sites);
}

/* A block of pymalloc's was passed to free() or its kind. If CPython did that, the block is another
 * interpreter's, and is left alone. Returns whether the block may go home. */
static bool find_pymallocs(const void *ptr, const struct hf_owner *owner, uint32_t freed_site)
{
    const struct hf_python_call *call = &hf_python_call;
    const bool is_cpythons = is_passed_on(ptr, freed_site);
    struct hf_event event = {
        .rule = is_cpythons ? HF_FAULT_WRONG_INTERPRETER : HF_FAULT_DOMAIN_MISMATCH,
        .ptr = ptr,
        .allocator = owner->allocator,
        .allocator_object = owner->object,
        .freed_site =
            is_cpythons ? hf_site_of(call->site.caller, call->site.function).number : freed_site,
    };
    hf_finding(&event);
    return !is_cpythons;
}

/* A block of a hosted allocator was passed to free() or its kind. A space's may be, because only
 * homefree hands them out, and says so (homefree/space.h). */
static bool find_hosted(const void *ptr, const struct hf_owner *owner, uint32_t freed_site)
{
    if (owner->kind == HF_OWNER_PINNED || owner->kind == HF_OWNER_DEVICE)
        return true;
    if (owner->kind != HF_OWNER_CUDA)
        return find_pymallocs(ptr, owner, freed_site);
    struct hf_event event = {
        .rule = HF_FAULT_FOREIGN_FREE,
        .ptr = ptr,
        .allocator = owner->allocator,
        .freed_site = freed_site,
        .bytes = owner->block_size,
    };
    const struct hf_cuda_satellite *cuda = hf_cuda_opened();
    const void *caller = cuda != NULL ? cuda->caller_of(ptr) : NULL;
    if (caller != NULL && hf_dynlink_find(caller) != NULL)
        event.allocated_site = hf_site_of(caller, HF_FUNCTION_unknown).number;
    hf_finding(&event);
    return true;
}

/* ---- pointers that are no block ---- */

bool hf_fault_no_block(const void *ptr, size_t capacity, uint32_t freed_site)
{
    struct hf_event event = {.ptr = ptr, .allocator = heap_name, .freed_site = freed_site};
    struct hf_footer footer;
    const void *block;
    if (hf_hosted_of(ptr) != NULL) {
        struct hf_owner owner = {.size = sizeof owner};
        return is_ours(freed_site) || !hf_hosted_describe(ptr, &owner) ||
               find_hosted(ptr, &owner, freed_site);
    }
    size_t size = hf_plain_block(ptr, &block);
    if (capacity != 0 && hf_footer_read(ptr, capacity, &footer) == HF_FOOTER_FREED) {
        event.rule = HF_FAULT_DOUBLE_FREE;
        event.allocated_site = footer.site;
        event.first_freed_site = (uint32_t)footer.slack;
    } else if (size == 0 && !hf_region_was_reached(ptr)) {
        event.rule = HF_FAULT_UNMAPPED_FREE;
        event.allocator = NULL;
    } else if (size == 0) {
        event.rule = HF_FAULT_DOUBLE_FREE;
    } else if (block != ptr) {
        event.rule = HF_FAULT_INTERIOR_FREE;
        const enum hf_footer_state state = hf_footer_read(block, size, &footer);
        if (state != HF_FOOTER_DAMAGED)
            event.allocated_site = footer.site;
        if (state == HF_FOOTER_LIVE)
            event.bytes = hf_footer_asked(size, footer);
    } else {
        event.rule = HF_FAULT_OVERRUN;
        if (hf_footer_survives(ptr, size, &footer)) {
            event.allocated_site = footer.site;
            event.bytes = hf_footer_asked(size, footer);
        }
    }
    hf_finding(&event);
    return event.rule == HF_FAULT_OVERRUN;
}

/* ---- foreign pointers ---- */

/* The number of the object that holds a foreign allocator whose functions can be called, and which
 * therefore stays loaded; 0: unknown. */
static uint16_t object_of(const struct hf_foreign_allocator *allocator)
{
    static struct {
        const struct hf_foreign_allocator *_Atomic allocator; /* set last */
        uint16_t object;
    } known[HF_FOREIGN_MAX];
    size_t at = 0;
    while (at < HF_FOREIGN_MAX && known[at].allocator != NULL)
        if (known[at++].allocator == allocator)
            return known[at - 1].object;
    if (allocator->form == HF_FREE_NONE || allocator->map == NULL || !hf_report_lock())
        return 0;
    const uint16_t object = hf_site_object_number(allocator->map);
    while (at < HF_FOREIGN_MAX && known[at].allocator != NULL && known[at].allocator != allocator)
        at++;
    if (at < HF_FOREIGN_MAX) {
        known[at].object = object;
        known[at].allocator = allocator;
    }
    hf_report_unlock();
    return object;
}

/* Returns whether the allocator may get the block. */
static bool find_foreign(const struct hf_foreign_allocator *allocator, const void *ptr,
                         struct hf_site freed)
{
    const bool unloaded = hf_unloaded_is(allocator);
    struct hf_event event = {
        .rule = unloaded ? HF_FAULT_OWNER_UNLOADED : HF_FAULT_FOREIGN_FREE,
        .ptr = ptr,
        .allocator = allocator->name,
        .allocator_object = allocator->object,
        .freed_site = freed.number,
        .bytes = allocator->usable_size != NULL ? allocator->usable_size(ptr) : 0,
    };
    /* Its allocation was not seen, so it is counted now. */
    const uint16_t object = object_of(allocator);
    if (object != 0) {
        hf_count(object, HF_REPORT_ALLOCATED, event.bytes);
        hf_count(object, freed.object, event.bytes);
    }
    hf_finding(&event);
    return !unloaded;
}

/* No allocator is known for the pointer. Returns whether libc may get it. */
static bool judge_by_place(const void *ptr, uint32_t freed_site)
{
    static const enum hf_report_rule rules[] = {
        [HF_OWNER_UNKNOWN] = HF_FAULT_FOREIGN_FREE, /* such as a mapping of a device */
        [HF_OWNER_STACK] = HF_FAULT_STACK_FREE,
        [HF_OWNER_STATIC] = HF_FAULT_STATIC_FREE,
        [HF_OWNER_UNMAPPED] = HF_FAULT_UNMAPPED_FREE,
    };
    struct hf_owner owner = {.size = sizeof owner};
    /* The program's own malloc() may hand anything out; a confined process cannot look. */
    if (hf_libc_is_replaced() || hf_report_is_confined())
        return true;
    int saved_errno = errno;
    int result = hf_owner_of_here(ptr, &owner);
    errno = saved_errno;
    if (result != 0 || owner.kind >= sizeof rules / sizeof rules[0] ||
        rules[owner.kind] == HF_FAULT_NOTHING ||
        (owner.kind == HF_OWNER_UNKNOWN && !hf_libc_heap_denies(ptr)))
        return true;
    struct hf_event event = {
        .rule = rules[owner.kind],
        .ptr = ptr,
        .allocator_object = owner.object,
        .freed_site = freed_site,
    };
    hf_finding(&event);
    return false;
}

bool hf_fault_foreign(const void *ptr, struct hf_call_site call)
{
    if (hf_forward != NULL)
        return true;
    const struct hf_foreign_allocator *allocator = hf_foreign_instead_of_ours(ptr);
    struct hf_site site = hf_site_of(call.caller, call.function);
    if (allocator == NULL)
        return judge_by_place(ptr, site.number);
    if (allocator->form == HF_FREE_HOSTED) {
        struct hf_owner owner = {.size = sizeof owner, .object = allocator->object};
        allocator->hosted->describe(ptr, &owner);
        owner.allocator = owner.kind == HF_OWNER_CUDA ? owner.allocator : allocator->name;
        return find_hosted(ptr, &owner, site.number);
    }
    /* Without homefree, every function of the process would be the displaced allocator's. */
    return allocator == &hf_foreign_scope || allocator->displaced ||
           find_foreign(allocator, ptr, site);
}
