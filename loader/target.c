/*
 * Owns nothing; a pass hands in the scope that it keeps between slots. See target.h.
 *
 * The rule that decides most: a slot's own value is its original, unless the value lies in the
 * object itself (the PLT: not resolved yet; calling it would run the resolver, which overwrites the
 * slot) or in the program (whose PLT entry may stand for the function). Then the original is what
 * the slot would resolve to: the first definition in the order of loading.
 */
#include "target.h"

#include <string.h>

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

enum hf_object_role hf_object_role(const struct hf_object *object)
{
    const char *soname = object->soname != NULL ? object->soname : "";
    if (starts_with(soname, "libc.so."))
        return HF_ROLE_LIBC;
    if (starts_with(soname, "ld-linux") || starts_with(soname, "ld64.so"))
        return HF_ROLE_LINKER;
    if (starts_with(soname, "linux-vdso"))
        return HF_ROLE_NOTHING;
    if (hf_object_symbol(object, "hf_instance_record") != NULL)
        return HF_ROLE_HOMEFREE;
    return HF_ROLE_ORDINARY;
}

static void *definition(struct hf_scope *scope, enum hf_routed function)
{
    if (!scope->looked_up[function]) {
        scope->looked_up[function] = true;
        struct hf_object object;
        for (const struct link_map *map = scope->first;
             map != NULL && scope->definitions[function] == NULL; map = map->l_next)
            if (hf_dynlink_open(map, &object))
                scope->definitions[function] = hf_object_address(&object, hf_routed_name(function));
    }
    return scope->definitions[function];
}

/* The standard C++ runtimes' operators call free() through slots that are routed. */
static bool is_cxx_runtime(const struct link_map *map)
{
    struct hf_object object;
    if (map == NULL || !hf_dynlink_open(map, &object) || object.soname == NULL)
        return false;
    return starts_with(object.soname, "libstdc++.so") || starts_with(object.soname, "libc++");
}

/* A versioned symbol of another library than the one that the function belongs to is another
 * function of the same name. */
static bool is_another_function(const char *provider, enum hf_routed function)
{
    if (provider == NULL)
        return false;
    if (hf_routed_is_operator(function))
        return !starts_with(provider, "libstdc++.so") && !starts_with(provider, "libc++");
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
    if (hf_stub_is(slot->function, value))
        return (struct hf_decision){.state = HF_ROUTE_CHANGED};
    /* A weak function that nobody defines. */
    if (value == NULL)
        return nothing;
    if (hf_routed_is_loader(slot->function) && (role == HF_ROLE_LIBC || !scope->base))
        return nothing;
    if (object->symbols[slot->symbol].st_shndx == SHN_UNDEF &&
        is_another_function(hf_object_provider(object, slot->symbol), slot->function))
        return refuse("the object asks for this function from a library other than libc");

    const struct link_map *target = hf_dynlink_find(value);
    bool own = target == object->map;
    bool program = target != NULL && scope->base && target == scope->first;
    void *original = value;
    if (own || program) {
        original = definition(scope, slot->function);
        if (original == NULL)
            return refuse("nothing in this namespace defines the function yet");
        target = hf_dynlink_find(original);
    }
    if (target == NULL)
        return refuse("the slot points to code that belongs to no loaded object");
    if (slot->kind == HF_SLOT_WORD && value != original && !program)
        return nothing;
    if (slot->kind == HF_SLOT_WORD && original != definition(scope, slot->function))
        return refuse("the variable was given another function");
    if (hf_routed_is_operator(slot->function) && is_cxx_runtime(target))
        return nothing;
    return (struct hf_decision){.state = HF_ROUTE_CHANGED, .change = true, .original = original};
}
