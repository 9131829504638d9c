/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing lasting. A pass supplies the scope that it keeps between slots. See slot_policy.h.
 *
 * The main rule: the slot's current value is its original, unless it is a PLT entry. A PLT entry of
 * the object itself means that the slot is unresolved (calling it would run the resolver, which
 * overwrites the slot); a PLT entry of the program stands for the function. In both cases the
 * original is the function that the slot would resolve to: the first definition in load order. If
 * several objects define free(), only the loader knows the slot's own scope (RTLD_DEEPBIND changes
 * the order), so a call that does nothing resolves the slot.
 */
#include "loader/interpose/slot_policy.h"

#include "alloc/heap/internal.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/object_role.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/lazy_slots.h"
#include "loader/interpose/limit_slots.h"
#include "loader/interpose/stubs.h"
#include "loader/interpose/symbol_tables.h"

#include <errno.h>
#include <string.h>

/* The object that was looked into last: most slots lead to the same. Guarded by the loader's
 * lock; not on the stack, which may be small. */
static struct hf_object target;

static bool open_target(const struct link_map *map)
{
    if (map != NULL && (target.map == map || hf_dynlink_open(map, &target)))
        return true;
    target.map = NULL;
    return false;
}

struct hf_scope hf_scope_begin(const struct link_map *first, bool base)
{
    const struct link_map *ours = hf_dynlink_find(&hf_region);
    target.map = NULL; /* it may be gone */
    while (ours != NULL && ours->l_prev != NULL)
        ours = ours->l_prev;
    return (struct hf_scope){.first = first, .base = base, .ours = ours == first};
}

/* ---- definers ---- */

/* Returns whether an address lies in this library. The linker defines both symbols. */
static bool is_ours(const void *address)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (uintptr_t)address - (uintptr_t)__ehdr_start < (uintptr_t)_end - (uintptr_t)__ehdr_start;
}

static void begin_deep(const struct link_map *serving, const struct link_map *map)
{
    struct hf_object libc;
    if (!hf_dynlink_open(map, &libc))
        return;
    const struct hf_foreign_allocator functions = {
        .name = "glibc",
        .object = hf_dynlink_name(map),
        .map = map,
        .form = HF_FREE_PLAIN,
        .release = hf_table_address(&libc, "free"),
        .realloc = (void *(*)(void *, size_t))hf_table_address(&libc, "realloc"),
        .usable_size = (size_t(*)(const void *))hf_table_address(&libc, "malloc_usable_size"),
    };
    hf_foreign_begin_deep(&functions, serving);
    hf_asking_begin();
}

/* Not inlined: the common case, which needs no struct, may run on a small stack. */
static __attribute__((noinline)) void note_served(enum hf_routed function, const void *original,
                                                  const struct link_map *serving,
                                                  const struct link_map *libc)
{
    struct hf_object object;
    /* A tracer may interpose free() alone. */
    if (function == HF_ROUTED_realloc &&
        (!hf_dynlink_open(serving, &object) || hf_object_address(&object, "realloc") == NULL))
        return;
    if ((function == HF_ROUTED_free || function == HF_ROUTED_realloc) &&
        hf_dynlink_find(original) == libc)
        begin_deep(serving, libc);
}

void hf_definer_note(enum hf_routed function, const void *original)
{
    const struct link_map *libc, *serving = hf_serving_object(&libc);
    if (HF_UNLIKELY(serving != NULL) && !hf_foreign_is_deep())
        note_served(function, original, serving, libc);
}

void hf_definer_note_deep(void)
{
    const struct link_map *libc, *serving = hf_serving_object(&libc);
    if (serving != NULL && !hf_foreign_is_deep())
        begin_deep(serving, libc);
}

/* ---- scopes ---- */

void *hf_scope_definition(const struct hf_scope *scope, const char *name)
{
    void *found = NULL;
    for (const struct link_map *map = scope->first; map != NULL && found == NULL; map = map->l_next)
        if (open_target(map))
            found = hf_table_address(&target, name);
    return found;
}

/* The same for a routed function; looked up once per pass. */
static void *definition(struct hf_scope *scope, enum hf_routed function)
{
    if (!scope->looked_up[function]) {
        scope->looked_up[function] = true;
        scope->definitions[function] = hf_scope_definition(scope, hf_routed_name(function));
    }
    return scope->definitions[function];
}

/* Returns whether more than one object of the namespace defines free(). The dynamic linker's own,
 * which old ones export, does not count: libc precedes it in every scope, and asking the loader
 * takes kilobytes of a stack that may be small, because its resolver saves all registers. */
static bool has_several_frees(struct hf_scope *scope)
{
    if (scope->frees == HF_SCOPE_UNKNOWN) {
        int count = 0;
        for (const struct link_map *map = scope->first; map != NULL && count < 2; map = map->l_next)
            if (open_target(map) && hf_object_address(&target, "free") != NULL &&
                hf_object_role(&target) != HF_ROLE_LINKER)
                count++;
        scope->frees = count < 2 ? HF_SCOPE_ONE_FREE : HF_SCOPE_SEVERAL_FREES;
    }
    return scope->frees == HF_SCOPE_SEVERAL_FREES;
}

/* Returns whether an address is the object's own definition of that name. */
static bool is_definition(const struct link_map *map, const char *name, const void *address)
{
    return open_target(map) && hf_table_address(&target, name) == address;
}

/* The same for an address in `map`, which may be `object` itself: no need to open that again. */
static bool is_definition_of(const struct hf_object *object, const struct link_map *map,
                             const char *name, const void *address)
{
    return map == object->map ? hf_table_address(object, name) == address
                              : is_definition(map, name, address);
}

/* Returns whether an address is the PLT entry that stands for the function throughout a process
 * whose program is not position-independent. */
static bool is_programs_plt(const struct hf_scope *scope, const char *name, const void *address)
{
    return scope->base && open_target(scope->first) && hf_object_plt(&target, name) == address;
}

bool hf_word_is_untouched(const struct hf_scope *scope, const char *name, const void *value)
{
    const struct link_map *definer = hf_dynlink_find(value);
    return is_definition(definer, name, value) ||
           (definer == scope->first && is_programs_plt(scope, name, value));
}

/* Gives back what resolve_by_call() got: by the free() beside the realloc() that was called. */
static void give_back(void *block, const void *called)
{
    void (*release)(void *) = NULL;
    if (open_target(hf_dynlink_find(called)))
        release = (void (*)(void *))hf_table_address(&target, "free");
    if (release != NULL)
        release(block);
}

/*
 * Returns the target of an unresolved slot, or NULL: calls the slot with an argument that does
 * nothing, so that the loader resolves it. Only for functions that libc defines, because a failed
 * lookup would end the process. With LD_AUDIT or LD_PROFILE the loader may leave every slot as it
 * is and come in between each call. Who allocated then is not known: a byte that is not the heap's
 * stays.
 */
static void *resolve_by_call(const struct hf_object *object, const struct hf_slot *slot)
{
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    void *block = NULL;
    int saved_errno = errno;
    if ((hf_object_protection(object, (uintptr_t)value) & PF_X) == 0 ||
        !hf_lazy_is_unresolved(slot, value))
        return NULL;
    switch (slot->function) {
    case HF_ROUTED_free:
        hf_lazy_call(NULL, 0, value, slot->relocation, slot->address);
        break;
    case HF_ROUTED_realloc:
        block = hf_lazy_call(NULL, 1, value, slot->relocation, slot->address);
        break;
    default: /* no argument is a no-op for every allocator */
        return NULL;
    }
    errno = saved_errno;
    void *now = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    void *resolved = now != value ? hf_table_behind((enum hf_routed)slot->function, now) : NULL;
    if (block != NULL && hf_owns(block))
        hf_free(block);
    else if (block != NULL)
        give_back(block, resolved);
    return resolved;
}

/* Returns the function that an unresolved slot will resolve to. */
static void *resolve(const struct hf_object *object, struct hf_scope *scope,
                     const struct hf_slot *slot)
{
    bool ask = slot->kind == HF_SLOT_CALL && has_several_frees(scope);
    void *found = ask ? resolve_by_call(object, slot) : NULL;
    const struct link_map *map = hf_dynlink_find(found);
    bool unresolved =
        map == NULL || (map == object->map &&
                        !is_definition_of(object, map, hf_routed_name(slot->function), found));
    return unresolved ? definition(scope, slot->function) : found;
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool hf_slot_is_foreign(const struct hf_object *object, size_t symbol, bool is_operator)
{
    if (object->symbols[symbol].st_shndx != SHN_UNDEF)
        return false;
    const char *provider = hf_object_provider(object, symbol);
    if (provider == NULL)
        return false;
    if (is_operator)
        return !hf_is_cxx_runtime(provider);
    return !starts_with(provider, "libc.so") && !starts_with(provider, "libdl.so") &&
           !starts_with(provider, "libpthread.so");
}

/* ---- deciding ---- */

static struct hf_decision ignore(void)
{
    return (struct hf_decision){.ignore = true};
}

static struct hf_decision refuse(const char *reason)
{
    return (struct hf_decision){.state = HF_ROUTE_REFUSED, .reason = reason};
}

/* The slot already leads to homefree. */
static struct hf_decision keep(void)
{
    return (struct hf_decision){.state = HF_ROUTE_CHANGED};
}

static struct hf_decision change(void *original)
{
    return (struct hf_decision){.state = HF_ROUTE_CHANGED, .change = true, .original = original};
}

/* Returns whether routing leaves such slots alone in every object of this role. */
static bool is_exempt(enum hf_object_role role, const struct hf_scope *scope, int function)
{
    /* dlopen() picks the namespace by its caller, which would be the stub. */
    if (hf_routed_is_loader((enum hf_routed)function))
        return role == HF_ROLE_RUNTIME || !scope->ours;
    /* libc and libstdc++ contain no allocator that mmap tracking would have to tell apart. */
    if (hf_routed_is_mapping((enum hf_routed)function))
        return function == HF_ROUTED_madvise || role == HF_ROLE_RUNTIME;
    return false;
}

/* Decides about a slot whose original has been found. */
static struct hf_decision decide_by_original(enum hf_object_role role, const struct hf_slot *slot,
                                             void *original)
{
    const enum hf_routed function = (enum hf_routed)slot->function;
    if (original == NULL)
        return refuse("nothing in this namespace defines the function yet");
    if (hf_dynlink_find(original) == NULL)
        return refuse("the slot points to code that belongs to no loaded object");
    if (is_ours(original)) /* also where the loader has yet to resolve the slot */
        return keep();
    if (!hf_function_is_known(function, original))
        return ignore(); /* an unrelated function of the same name */
    if (hf_operator_takes_all(function, original))
        return ignore();
    if (role == HF_ROLE_ORDINARY)
        hf_definer_note(function, original);
    return change(original);
}

/* Finds the original of a slot that holds neither a stub nor a replacement, and decides by it. */
static struct hf_decision decide_by_value(const struct hf_object *object, enum hf_object_role role,
                                          struct hf_scope *scope, const struct hf_slot *slot,
                                          void *value)
{
    const struct link_map *definer = hf_dynlink_find(value);
    const char *name = hf_routed_name((enum hf_routed)slot->function);
    const bool own = definer == object->map;
    if (is_definition_of(object, definer, name, value))
        return decide_by_original(role, slot, value);
    if (definer == scope->first && is_programs_plt(scope, name, value))
        return decide_by_original(role, slot, definition(scope, (enum hf_routed)slot->function));
    if (slot->kind == HF_SLOT_WORD)
        return own ? ignore() : refuse("the variable was given another function");
    /* The object's own PLT entry, or another tool's function. */
    return decide_by_original(role, slot, own ? resolve(object, scope, slot) : value);
}

/* Settles what it can without looking up the object that the slot points into. */
struct hf_decision hf_slot_decide(const struct hf_object *object, enum hf_object_role role,
                                  struct hf_scope *scope, const struct hf_slot *slot)
{
    const enum hf_routed function = (enum hf_routed)slot->function;
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    if (hf_stub_is(function, value)) {
        if (role == HF_ROLE_ORDINARY)
            hf_definer_note(function, hf_stub_original(function, value));
        return keep();
    }
    /* NULL: a weak function without a definition. */
    if (value == NULL || is_exempt(role, scope, slot->function))
        return ignore();
    if (!hf_routed_is_cudas(function) &&
        hf_slot_is_foreign(object, slot->symbol, hf_routed_is_operator(function)))
        return refuse("the object asks for this function from a library other than libc");
    /* A replacement, or the malloc family of a library that serves the process. */
    if (is_ours(value) || hf_limit_slots_has(value))
        return keep();
    /* Nearly every slot goes to the first definition, libc's; that alone decides. */
    if (value == definition(scope, function) && hf_name_is_reserved(function))
        return hf_operator_takes_all(function, value) ? ignore() : change(value);
    return decide_by_value(object, role, scope, slot, value);
}
