/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the facts about the process and writes them in the format of process_record.h. Owns no
 * state beyond a call. Allocates nothing, and calls nothing that does, because it also runs in a
 * process that has crashed inside an allocator.
 *
 * When: under the loader's lock, so that every listed object is relocated; or, after a crash,
 * without the lock in a single-threaded copy of the process that process_end.c watches.
 */
#include "loader/record/process_record.h"

#include "alloc/base/options.h"
#include "alloc/base/symbol.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/region.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/symbol_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { COPY = R_X86_64_COPY, THREAD_OFFSET = R_X86_64_TPOFF64 };
#elif defined(__aarch64__)
enum { COPY = R_AARCH64_COPY, THREAD_OFFSET = R_AARCH64_TLS_TPREL };
#endif

/* ---- writing -------------------------------------------------------------------------------- */

struct out {
    int descriptor, error;
    size_t lines, used;
    bool begun; /* the current line has a field */
    char buffer[4096];
};

static void flush(struct out *out)
{
    for (size_t done = 0; done < out->used && out->error == 0;) {
        ssize_t written = write(out->descriptor, out->buffer + done, out->used - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            out->error = written == 0 ? -EIO : -errno;
    }
    out->used = 0;
}

static void put(struct out *out, char byte)
{
    if (out->used == sizeof out->buffer)
        flush(out);
    out->buffer[out->used++] = byte;
}

static void field(struct out *out, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    if (out->begun)
        put(out, '\t');
    out->begun = true;
    if (text == NULL || *text == '\0') {
        put(out, '-');
        return;
    }
    bool dash = strcmp(text, "-") == 0;
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte > ' ' && byte < 0x7f && byte != '%' && !dash) {
            put(out, (char)byte);
            continue;
        }
        put(out, '%');
        put(out, digits[byte >> 4]);
        put(out, digits[byte & 15]);
    }
}

static void number(struct out *out, uint64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    *--at = '\0';
    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    field(out, at);
}

static void end_line(struct out *out)
{
    put(out, '\n');
    out->begun = false;
    out->lines++;
}

/* ---- functions that allocate: recorded, never routed ---------------------------------------- */

static const char *const allocating[] = {
#define HF_ALLOCATING(name) #name,
#include "loader/record/allocating_functions.def"
#undef HF_ALLOCATING
};
#define ALLOCATING (sizeof allocating / sizeof allocating[0])

static int index_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i][0] == name[0] && strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static int find_allocating(const char *name)
{
    return index_of(allocating, ALLOCATING, name);
}
static const char *name_allocating(int function)
{
    return allocating[function];
}
static const struct hf_function_names allocating_names = {ALLOCATING, find_allocating,
                                                          name_allocating, NULL};

/* The functions through which an allocator gets pages. */
static const char *const mapping[] = {"mmap", "mmap64", "sbrk", "__mmap", "syscall"};

/* ---- one object ----------------------------------------------------------------------------- */

struct collecting {
    struct out *out;
    size_t index; /* the object's position in the record */
    const struct hf_object *object;
    enum hf_object_role role;
    struct hf_scope scope;
    void *definitions[ALLOCATING]; /* the namespace's first definition of each function, or NULL */
    /* Caches positions, because nearly all slots go to the same few objects. */
    struct {
        const struct link_map *map;
        size_t index;
    } targets[8];
    size_t targets_next;
};

/* An object's position in the record, or SIZE_MAX if the record leaves it out. */
static size_t number_of(const struct link_map *wanted)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first), index = 0;
    struct hf_object object;
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next) {
            if (!hf_dynlink_open(map, &object) || hf_object_role(&object) == HF_ROLE_NOTHING)
                continue;
            if (map == wanted)
                return index;
            index++;
        }
    return SIZE_MAX;
}

static size_t target_index(struct collecting *collecting, const struct link_map *map)
{
    const size_t capacity = sizeof collecting->targets / sizeof collecting->targets[0];
    for (size_t i = 0; i < capacity; i++)
        if (collecting->targets[i].map == map)
            return collecting->targets[i].index;
    size_t next = collecting->targets_next++ % capacity;
    collecting->targets[next].map = map;
    collecting->targets[next].index = number_of(map);
    return collecting->targets[next].index;
}

static void target(struct collecting *collecting, const void *address)
{
    const struct link_map *map = address != NULL ? hf_dynlink_find(address) : NULL;
    size_t index = map != NULL ? target_index(collecting, map) : SIZE_MAX;
    if (index == SIZE_MAX)
        field(collecting->out, NULL);
    else
        number(collecting->out, index);
}

static void slot_line(struct collecting *collecting, const char *function, enum hf_slot_kind kind,
                      const char *state, const void *goes_to, const char *reason)
{
    static const char *const kinds[] = {"call", "data", "word"};
    struct out *out = collecting->out;
    field(out, "slot");
    number(out, collecting->index);
    field(out, function);
    field(out, kinds[kind]);
    field(out, state);
    target(collecting, goes_to);
    field(out, reason);
    end_line(out);
}

static void routed_slot(const struct hf_slot *slot, void *context)
{
    struct collecting *collecting = context;
    enum hf_routed routed = (enum hf_routed)slot->function;
    if (hf_routed_is_loader(routed) || hf_routed_is_mapping(routed))
        return;
    const char *function = hf_routed_name(routed);
    const void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    const void *original = hf_stub_original(routed, value);
    if (original != NULL) {
        slot_line(collecting, function, slot->kind, "routed", original, NULL);
        return;
    }
    struct hf_decision decision =
        hf_slot_decide(collecting->object, collecting->role, &collecting->scope, slot);
    if (decision.ignore)
        return;
    const char *reason = decision.reason;
    if (decision.change && !hf_options.route)
        reason = "routing is off";
    else if (decision.change)
        reason = "the slot cannot be made writable, or was changed back since";
    slot_line(collecting, function, slot->kind, "refused",
              decision.original != NULL ? decision.original : value, reason);
}

/* The function that a slot of an allocating function will call. An unresolved slot still points
 * into its own object, or to the program's PLT entry, and will go to the first definition. */
static const void *resolved(const struct collecting *collecting, const void *value, int function)
{
    const struct link_map *map = hf_dynlink_find(value);
    struct hf_object object;
    if (map != NULL && hf_dynlink_open(map, &object) &&
        hf_object_address(&object, allocating[function]) != NULL)
        return value;
    return collecting->definitions[function] != NULL ? collecting->definitions[function] : value;
}

/* Records variables that point to an allocator's function: free_hook, xmlFree, pcre_free, … */
static void copied_variable(struct collecting *collecting, const ElfW(Sym) *symbol,
                            const ElfW(Rela) *relocation)
{
    static const char *const functions[] = {"free", "malloc", "realloc", "calloc"};
    struct hf_object *object = &(struct hf_object){.map = NULL};
    void *const *word = (void *const *)(collecting->object->base + relocation->r_offset);
    const char *name = collecting->object->strings + symbol->st_name;
    for (size_t i = 0; i < symbol->st_size / sizeof *word && i < 64; i++) {
        if (hf_object_capacity(collecting->object, word + i) < sizeof *word)
            return;
        const struct link_map *map = word[i] != NULL ? hf_dynlink_find(word[i]) : NULL;
        if (map == NULL || !hf_dynlink_open(map, object))
            continue;
        for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
            if (hf_table_address(object, functions[f]) != word[i])
                continue;
            field(collecting->out, "copy");
            number(collecting->out, collecting->index);
            field(collecting->out, name);
            field(collecting->out, functions[f]);
            target(collecting, word[i]);
            end_line(collecting->out);
        }
    }
}

static const ElfW(Sym) *symbol_of(const struct hf_object *object, const ElfW(Rela) *relocation)
{
    const size_t index = ELF64_R_SYM(relocation->r_info);
    return index < object->symbols_capacity ? &object->symbols[index] : NULL;
}

static void copied_variables(struct collecting *collecting)
{
    const struct hf_object *object = collecting->object;
    for (size_t i = object->rela_relative_count; i < object->rela_size / sizeof *object->rela;
         i++) {
        const ElfW(Sym) *symbol = symbol_of(object, &object->rela[i]);
        if (symbol != NULL && ELF64_R_TYPE(object->rela[i].r_info) == COPY &&
            symbol->st_name < object->strings_size)
            copied_variable(collecting, symbol, &object->rela[i]);
    }
}

static void allocating_slot(const struct hf_slot *slot, void *context)
{
    struct collecting *collecting = context;
    const void *value = __atomic_load_n(slot->address, __ATOMIC_ACQUIRE);
    if (value != NULL)
        slot_line(collecting, allocating[slot->function], slot->kind, "plain",
                  resolved(collecting, value, slot->function), NULL);
}

/* Whether the object imports a function that returns pages. Only undefined symbols that relocations
 * refer to are checked. */
static bool refers_to_pages(const struct hf_object *object)
{
    const ElfW(Rela) *tables[] = {object->jump_relocations, object->rela};
    const size_t sizes[] = {object->jump_is_rela ? object->jump_relocations_size : 0,
                            object->rela_size};
    const size_t skip[] = {0, object->rela_relative_count};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = skip[t]; tables[t] != NULL && i < sizes[t] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Sym) *symbol = symbol_of(object, &tables[t][i]);
            if (symbol != NULL && symbol->st_shndx == SHN_UNDEF && symbol->st_name != 0 &&
                symbol->st_name < object->strings_size &&
                index_of(mapping, sizeof mapping / sizeof mapping[0],
                         object->strings + symbol->st_name) >= 0)
                return true;
        }
    return false;
}

/* GNU's linker sets no flag for aarch64; a relocation says it as well. */
static bool wants_static_tls(const struct hf_object *object)
{
    for (const ElfW(Dyn) *d = object->map->l_ld; d != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_STATIC_TLS) != 0)
            return true;
    for (size_t i = object->rela_relative_count;
         object->rela != NULL && i < object->rela_size / sizeof(ElfW(Rela)); i++)
        if (ELF64_R_TYPE(object->rela[i].r_info) == THREAD_OFFSET)
            return true;
    return false;
}

static void object_line(struct out *out, const struct hf_object *object, size_t namespace,
                        enum hf_object_role role)
{
    static const char *const roles[] = {
        [HF_ROLE_ORDINARY] = "ordinary",   [HF_ROLE_RUNTIME] = "runtime",
        [HF_ROLE_LINKER] = "linker",       [HF_ROLE_HOMEFREE] = "homefree",
        [HF_ROLE_SATELLITE] = "satellite",
    };
    char flags[8];
    size_t used = 0;
    if (refers_to_pages(object))
        flags[used++] = 'm';
    if (wants_static_tls(object))
        flags[used++] = 's';
    if (object->map == hf_dynlink_find(&hf_region))
        flags[used++] = 'h';
    if (object->map->l_prev == NULL && namespace == 0)
        flags[used++] = 'p';
    if (hf_object_symbol(object, "_PyRuntime") != NULL)
        flags[used++] = 'y';
    flags[used] = '\0';
    field(out, "object");
    number(out, namespace);
    field(out, roles[role]);
    field(out, flags);
    field(out, hf_dynlink_name(object->map));
    field(out, object->soname);
    end_line(out);
}

static void object_defines(struct collecting *collecting)
{
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (hf_object_symbol(collecting->object, names[i]) == NULL)
            continue;
        field(collecting->out, "defines");
        number(collecting->out, collecting->index);
        field(collecting->out, names[i]);
        end_line(collecting->out);
    }
}

static void reach_line(struct collecting *collecting, const char *reason)
{
    field(collecting->out, "reach");
    number(collecting->out, collecting->index);
    field(collecting->out, reason);
    end_line(collecting->out);
}

static void object_facts(struct collecting *collecting)
{
    const struct hf_object *object = collecting->object;
    object_defines(collecting);
    if (collecting->role == HF_ROLE_HOMEFREE || collecting->role == HF_ROLE_SATELLITE)
        return;
    if (collecting->role == HF_ROLE_LINKER) {
        reach_line(collecting, "the dynamic linker frees only what it allocated");
        return;
    }
    if (collecting->role == HF_ROLE_ORDINARY && hf_object_address(object, "free") != NULL &&
        hf_object_address(object, "malloc") != NULL)
        reach_line(collecting, "the object is an allocator: calls inside it need no slot");
    const bool runtime = collecting->role == HF_ROLE_RUNTIME;
    hf_slots_visit(object, &hf_routed_names, runtime, routed_slot, collecting);
    hf_slots_visit(object, &allocating_names, runtime, allocating_slot, collecting);
    if (object->map->l_prev == NULL && object->rela != NULL)
        copied_variables(collecting);
}

/* ---- the process ---------------------------------------------------------------------------- */

/* Calls `visit` for every object in the record, in the record's order. */
static void each_object(struct collecting *collecting,
                        void (*visit)(struct collecting *, const struct hf_object *, size_t))
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    struct hf_object object;
    collecting->index = 0;
    for (size_t i = 0; i < count; i++) {
        collecting->scope = hf_scope_begin(first[i], i == 0);
        for (size_t f = 0; f < ALLOCATING; f++) {
            collecting->definitions[f] = NULL;
            for (const struct link_map *map = first[i];
                 map != NULL && collecting->definitions[f] == NULL; map = map->l_next)
                if (hf_dynlink_open(map, &object))
                    collecting->definitions[f] = hf_object_address(&object, allocating[f]);
        }
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next) {
            if (!hf_dynlink_open(map, &object) || hf_object_role(&object) == HF_ROLE_NOTHING)
                continue;
            collecting->object = &object;
            collecting->role = hf_object_role(&object);
            visit(collecting, &object, i);
            collecting->index++;
        }
    }
}

static void name_object(struct collecting *collecting, const struct hf_object *object,
                        size_t namespace)
{
    object_line(collecting->out, object, namespace, collecting->role);
}

static void tell_object(struct collecting *collecting, const struct hf_object *object,
                        size_t namespace)
{
    (void)object;
    (void)namespace;
    object_facts(collecting);
}

/* Records the object's foreign allocators, and whether homefree can free their pointers. */
static void tell_allocators(struct collecting *collecting, const struct hf_object *object,
                            size_t namespace)
{
    (void)namespace;
    struct out *out = collecting->out;
    for (unsigned i = 1; i <= HF_FOREIGN_MAX; i++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(i);
        /* A descriptor that homefree wrote for an object has no link map; its name is then the same
         * string as the object's. */
        if (allocator == NULL ||
            (allocator->map != object->map &&
             (allocator->map != NULL || allocator->object != hf_dynlink_name(object->map))))
            continue;
        field(out, "foreign");
        number(out, collecting->index);
        field(out, allocator->name);
        number(out, hf_foreign_bytes(i));
        field(out, allocator->form != HF_FREE_NONE ? "home" : "known");
        number(out, hf_foreign_leaked(i));
        end_line(out);
    }
}

static void collect(void *context)
{
    struct collecting *collecting = context;
    each_object(collecting, name_object);
    each_object(collecting, tell_object);
    each_object(collecting, tell_allocators);
}

static void heap_line(struct out *out, bool alone)
{
    struct hf_stats stats = {.size = sizeof stats};
    field(out, "heap");
    if (alone || hf_stats(&stats) != 0) {
        number(out, hf_region.limit);
        for (int i = 0; i < 3; i++)
            field(out, NULL);
    } else {
        number(out, stats.region_reserved);
        number(out, stats.region_used);
        number(out, stats.allocated);
        number(out, stats.resident);
    }
    end_line(out);
}

static void object_number(struct out *out, const struct link_map *map)
{
    size_t index = map != NULL ? number_of(map) : SIZE_MAX;
    if (index == SIZE_MAX)
        field(out, NULL);
    else
        number(out, index);
}

static void crash_line(struct out *out, const struct hf_doctor_crash *crash)
{
    struct hf_doctor_place place;
    struct hf_object object;
    struct hf_symbol symbol;
    hf_doctor_find_place(&crash->frame, &place);
    if (place.object == NULL)
        return;
    bool named = hf_dynlink_open(place.object, &object) &&
                 hf_symbol_find(&object, place.code, &symbol) && symbol.covers;
    field(out, "crash");
    object_number(out, place.object);
    field(out, named ? symbol.name : NULL);
    object_number(out, place.caller);
    end_line(out);
    if (crash->freeing) {
        field(out, "freeing");
        end_line(out);
    }
}

int hf_doctor_write(int descriptor, enum hf_doctor_moment moment, int signal_number,
                    const struct hf_doctor_crash *crash, bool alone)
{
    static const char *const moments[] = {"exit", "start", "signal", "asked"};
    struct out out = {.descriptor = descriptor};
    struct collecting collecting = {.out = &out};
    field(&out, HF_DOCTOR_FIRST);
    number(&out, HF_DOCTOR_VERSION);
    end_line(&out);
    field(&out, "process");
    number(&out, (uint64_t)getpid());
    field(&out, moments[moment]);
    number(&out, (uint64_t)signal_number);
    const struct link_map *program = hf_dynlink_first();
    field(&out, program != NULL ? hf_dynlink_name(program) : NULL);
    field(&out, hf_options.route ? "on" : "off");
    end_line(&out);
    field(&out, "preload");
    field(&out, getenv("LD_PRELOAD"));
    end_line(&out);
    heap_line(&out, alone);
    int result = 0;
    if (alone)
        collect(&collecting);
    else
        result = hf_loader_lock_run(collect, &collecting);
    if (crash != NULL)
        crash_line(&out, crash);
    field(&out, "end");
    number(&out, out.lines);
    end_line(&out);
    flush(&out);
    return result != 0 ? result : out.error;
}

/* hf_doctor_record() of the libhomefree that is the heap, or NULL if that version lacks it. */
static int (*record_of_heap(void))(int descriptor)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    struct hf_object object;
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next) {
            const struct hf_instance *instance =
                hf_dynlink_open(map, &object) ? hf_object_address(&object, "hf_instance_record")
                                              : NULL;
            if (instance != NULL && instance->state == HF_INSTANCE_HEAP)
                return (int (*)(int))hf_object_address(&object, "hf_doctor_record");
        }
    return NULL;
}

int hf_doctor_record(int descriptor)
{
    hf_heap_start();
    if (hf_instance_forward() != NULL) {
        int (*theirs)(int) = record_of_heap();
        return theirs != NULL && theirs != hf_doctor_record ? theirs(descriptor) : -ENOTSUP;
    }
    return hf_doctor_write(descriptor, HF_DOCTOR_ASKED, 0, NULL, false);
}
