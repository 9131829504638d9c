/*
 * Owns nothing; a pass hands in the scope that it keeps between slots. See slot_policy.h.
 *
 * The rule that decides most: a slot's own value is its original, unless it is a PLT entry: of the
 * object itself (not resolved yet; calling it would run the resolver, which overwrites the slot) or
 * of the program (where that entry stands for the function). Then the original is what the slot
 * would resolve to: the first definition in the order of loading. Where several objects define
 * free(), the slot's own scope decides (RTLD_DEEPBIND turns the order round), and only the loader
 * knows that: the slot is then resolved by a call that does nothing.
 */
#include "loader/interpose/slot_policy.h"

#include "alloc/heap/internal.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/object_role.h"
#include "loader/interpose/replacements.h"
#include "loader/interpose/stubs.h"
#include "loader/interpose/symbol_tables.h"

#include <errno.h>
#include <string.h>

struct hf_scope hf_scope_begin(const struct link_map *first, bool base)
{
    const struct link_map *ours = hf_dynlink_find(&hf_region);
    while (ours != NULL && ours->l_prev != NULL)
        ours = ours->l_prev;
    return (struct hf_scope){.first = first, .base = base, .ours = ours == first};
}

/* ---- who defines a function ---- */

/* The object in front of libc whose free() serves the process, or NULL; `libc` gets libc's own.
 * Both were there when the program started and stay, so that they are looked for once. */
static const struct link_map *serving_object(const struct link_map **libc)
{
    static const struct link_map *known_serving, *known_libc;
    static _Atomic(bool) known;
    const struct link_map *first[HF_NAMESPACES_MAX];
    struct hf_object object;
    if (!known && hf_dynlink_namespaces(first) != 0) {
        const struct link_map *serving = NULL, *map = first[0];
        for (; map != NULL; map = map->l_next) {
            if (!hf_dynlink_open(map, &object))
                continue;
            if (hf_object_is_libc(&object))
                break;
            if (serving == NULL && hf_object_address(&object, "free") != NULL)
                serving = map;
        }
        known_serving = map != NULL ? serving : NULL;
        known_libc = map;
        known = true;
    }
    *libc = known_libc;
    return known_serving;
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

void hf_definer_note(enum hf_routed function, const void *original)
{
    const struct link_map *libc, *serving = serving_object(&libc);
    struct hf_object object;
    if (HF_LIKELY(serving == NULL) || hf_foreign_is_deep())
        return;
    /* A tracer may stand in front of free() alone. */
    if (function == HF_ROUTED_realloc &&
        (!hf_dynlink_open(serving, &object) || hf_object_address(&object, "realloc") == NULL))
        return;
    if ((function == HF_ROUTED_free || function == HF_ROUTED_realloc) &&
        hf_dynlink_find(original) == libc)
        begin_deep(serving, libc);
}

void hf_definer_note_deep(void)
{
    const struct link_map *libc, *serving = serving_object(&libc);
    if (serving != NULL && !hf_foreign_is_deep())
        begin_deep(serving, libc);
}

/* Functions that belong to an allocator's own interface, or that anybody may have called so:
 * functions.def says whose they must be. */
enum definers { ANYBODY, LIBC_OR_ALLOCATOR, MIMALLOC, TCMALLOC };
static const unsigned char definers[HF_ROUTED_COUNT] = {
#define HF_DEFINER(name, who) [HF_ROUTED_##name] = who,
#include "shim/functions.def"
};

static bool exports(const struct hf_object *object, const char *name)
{
    return name == NULL || hf_object_symbol(object, name[0] == '*' ? name + 1 : name) != NULL;
}

/* Whether the object exports the functions of that allocator, and not just one of that name; any
 * known allocator's for HF_ALLOCATOR_COUNT. */
static bool exports_allocator(const struct hf_object *object, enum hf_allocator allocator)
{
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const struct hf_allocator_calls *calls = &hf_allocator_calls[i];
        if ((allocator == HF_ALLOCATOR_COUNT || calls->allocator == allocator) &&
            exports(object, calls->mark) && exports(object, calls->realloc) &&
            exports(object, calls->usable_size))
            return true;
    }
    return false;
}

bool hf_function_is_known(enum hf_routed function, const void *address)
{
    struct hf_object object;
    if (definers[function] == ANYBODY)
        return true;
    const struct link_map *map = hf_dynlink_find(address);
    if (map == NULL || !hf_dynlink_open(map, &object))
        return false;
    switch (definers[function]) {
    case MIMALLOC:
        return exports_allocator(&object, HF_ALLOCATOR_MIMALLOC);
    case TCMALLOC:
        return exports_allocator(&object, HF_ALLOCATOR_TCMALLOC);
    default:
        return hf_object_is_libc(&object) || exports_allocator(&object, HF_ALLOCATOR_COUNT) ||
               (hf_foreign_lives_in(map) && exports(&object, "free"));
    }
}

/* ---- a scope ---- */

void *hf_scope_definition(const struct hf_scope *scope, const char *name)
{
    struct hf_object object;
    void *found = NULL;
    for (const struct link_map *map = scope->first; map != NULL && found == NULL; map = map->l_next)
        if (hf_dynlink_open(map, &object))
            found = hf_table_address(&object, name);
    return found;
}

/* The same for a routed function, looked up once a pass. */
static void *definition(struct hf_scope *scope, enum hf_routed function)
{
    if (!scope->looked_up[function]) {
        scope->looked_up[function] = true;
        scope->definitions[function] = hf_scope_definition(scope, hf_routed_name(function));
    }
    return scope->definitions[function];
}

/* Whether more than one object of the namespace defines free(). */
static bool has_several_frees(struct hf_scope *scope)
{
    if (scope->frees == HF_SCOPE_UNKNOWN) {
        int count = 0;
        struct hf_object object;
        for (const struct link_map *map = scope->first; map != NULL && count < 2; map = map->l_next)
            if (hf_dynlink_open(map, &object) && hf_object_address(&object, "free") != NULL)
                count++;
        scope->frees = count < 2 ? HF_SCOPE_ONE_FREE : HF_SCOPE_SEVERAL_FREES;
    }
    return scope->frees == HF_SCOPE_SEVERAL_FREES;
}

/*
 * What a slot that is not resolved yet goes to, or NULL: the loader resolves it in a call with
 * nothing to do. Only for functions that libc defines: a name that is not found would end the
 * process. Only on x86-64, where what such a slot holds can be called; elsewhere it needs the PLT
 * entry's registers.
 */
static void *resolve_by_call(const struct hf_slot *slot)
{
#if !defined(__x86_64__)
    (void)slot;
    return NULL;
#else
    void *call = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    void *block = NULL;
    int saved_errno = errno;
    switch (slot->function) {
    case HF_ROUTED_free:
        ((void (*)(void *))call)(NULL);
        break;
    case HF_ROUTED_realloc:
        block = ((void *(*)(void *, size_t))call)(NULL, 1);
        break;
    default: /* nothing that every allocator promises to take */
        return NULL;
    }
    errno = saved_errno;
    void *resolved = hf_table_behind((enum hf_routed)slot->function,
                                     __atomic_load_n(slot->address, __ATOMIC_ACQUIRE));
    struct hf_object object;
    const struct link_map *map = block != NULL ? hf_dynlink_find(resolved) : NULL;
    void (*release)(void *) = NULL;
    if (map != NULL && hf_dynlink_open(map, &object))
        release = (void (*)(void *))hf_table_address(&object, "free");
    if (release != NULL)
        release(block);
    return resolved;
#endif
}

/* Whether an address is the function of that name that its object defines. */
static bool is_definition(const struct link_map *map, const char *name, const void *address)
{
    struct hf_object object;
    return map != NULL && hf_dynlink_open(map, &object) &&
           hf_table_address(&object, name) == address;
}

/* Whether an address is the PLT entry that stands for the function everywhere in a process whose
 * program is at a fixed place. */
static bool is_programs_plt(const struct hf_scope *scope, const char *name, const void *address)
{
    struct hf_object object;
    return scope->base && hf_dynlink_open(scope->first, &object) &&
           hf_object_plt(&object, name) == address;
}

bool hf_word_is_untouched(const struct hf_scope *scope, const char *name, const void *value)
{
    const struct link_map *target = hf_dynlink_find(value);
    return is_definition(target, name, value) ||
           (target == scope->first && is_programs_plt(scope, name, value));
}

/* Where a slot that the loader has not resolved yet will go. */
static void *resolve(const struct hf_object *object, struct hf_scope *scope,
                     const struct hf_slot *slot)
{
    bool ask = slot->kind == HF_SLOT_CALL && has_several_frees(scope);
    void *found = ask ? resolve_by_call(slot) : NULL;
    const struct link_map *map = hf_dynlink_find(found);
    bool unresolved = map == NULL || (map == object->map &&
                                      !is_definition(map, hf_routed_name(slot->function), found));
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

static struct hf_decision refuse(const char *reason)
{
    return (struct hf_decision){.state = HF_ROUTE_REFUSED, .reason = reason};
}

struct hf_decision hf_slot_decide(const struct hf_object *object, enum hf_object_role role,
                                  struct hf_scope *scope, const struct hf_slot *slot)
{
    const struct hf_decision nothing = {.ignore = true};
    void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    if (hf_stub_is(slot->function, value)) {
        if (role == HF_ROLE_ORDINARY)
            hf_definer_note((enum hf_routed)slot->function,
                            hf_stub_original((enum hf_routed)slot->function, value));
        return (struct hf_decision){.state = HF_ROUTE_CHANGED};
    }
    /* A weak function that nobody defines. */
    if (value == NULL)
        return nothing;
    /* The loader takes the namespace to load into from its caller, which a stand-in is. */
    if (hf_routed_is_loader(slot->function) && (role == HF_ROLE_RUNTIME || !scope->ours))
        return nothing;
    /* libc and libstdc++ hold no allocator that could be mistaken for another. */
    if (slot->function == HF_ROUTED_madvise ||
        (role == HF_ROLE_RUNTIME && hf_routed_is_mapping(slot->function)))
        return nothing;
    if (hf_slot_is_foreign(object, slot->symbol, hf_routed_is_operator(slot->function)))
        return refuse("the object asks for this function from a library other than libc");

    /* Nearly every slot goes to the first definition, libc's, and is decided by that alone. */
    if (value == definition(scope, slot->function) && definers[slot->function] == ANYBODY)
        return (struct hf_decision){.state = HF_ROUTE_CHANGED, .change = true, .original = value};

    if (hf_replacement_is(value))
        return (struct hf_decision){.state = HF_ROUTE_CHANGED};

    const struct link_map *target = hf_dynlink_find(value);
    bool own = target == object->map;
    const char *name = hf_routed_name(slot->function);
    bool defined = is_definition(target, name, value);
    bool plt = !defined && target == scope->first && is_programs_plt(scope, name, value);
    if (slot->kind == HF_SLOT_WORD && !defined && !plt)
        return own ? nothing : refuse("the variable was given another function");
    void *original = value;
    if (plt)
        original = definition(scope, slot->function);
    else if (own && !defined)
        original = resolve(object, scope, slot);
    if (original == NULL)
        return refuse("nothing in this namespace defines the function yet");
    target = hf_dynlink_find(original);
    if (target == NULL)
        return refuse("the slot points to code that belongs to no loaded object");
    if (!hf_function_is_known(slot->function, original))
        return nothing; /* the same name, but somebody's own function */
    if (role == HF_ROLE_ORDINARY)
        hf_definer_note((enum hf_routed)slot->function, original);
    return (struct hf_decision){.state = HF_ROUTE_CHANGED, .change = true, .original = original};
}
