/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. A relocation names its symbol by index. The wanted indices are therefore collected
 * once per object, and its relocations (hundreds of thousands in a large library) are matched by
 * number alone.
 */
#include "loader/interpose/got_slots.h"

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, ABSOLUTE = R_X86_64_64 };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, ABSOLUTE = R_AARCH64_ABS64 };
#else
#    error "routing knows the relocation types of x86-64 and aarch64"
#endif

struct wanted {
    const struct hf_function_names *names;
    uint32_t symbols[HF_FUNCTION_NAMES_MAX * 2];
    uint8_t functions[HF_FUNCTION_NAMES_MAX * 2];
    size_t count;
    uint64_t rests; /* a bit for each rest of the division of their numbers by 64 */
};

static void want(struct wanted *wanted, uint32_t symbol, int function)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (wanted->symbols[i] == symbol)
            return;
    if (wanted->count == sizeof wanted->symbols / sizeof wanted->symbols[0])
        return;
    wanted->rests |= (uint64_t)1 << symbol % 64;
    wanted->symbols[wanted->count] = symbol;
    wanted->functions[wanted->count++] = (uint8_t)function;
}

/* Not inlined into the loop, which few names leave. */
static __attribute__((noinline)) void want_if_named(struct wanted *wanted,
                                                    const struct hf_object *object, uint32_t index)
{
    const size_t name = object->symbols[index].st_name;
    int function = name < object->strings_size ? wanted->names->find(object->strings + name) : -1;
    if (function < 0)
        return;
    if (object->versions != NULL) /* whoever decides about its slots will look there */
        __builtin_prefetch(&object->versions[index]);
    __builtin_prefetch(object->needs);
    want(wanted, index, function);
}

/* Collects the wanted ones of the symbols before `end`. */
static void want_by_name(struct wanted *wanted, const struct hf_object *object, uint32_t end,
                         bool defined)
{
    static const struct hf_name_starts any = {{[0 ... 15] = UINT64_MAX}};
    const struct hf_name_starts *const starts =
        wanted->names->starts != NULL ? wanted->names->starts : &any;
    const ElfW(Sym) *const symbols = object->symbols;
    const char *const strings = object->strings;
    /* Names that start later are shorter than three characters or invalid. */
    const size_t capacity = object->strings_size >= 4 ? object->strings_size - 3 : 0;
    /* All of this is cold, and an object has about as many relocations as undefined symbols, so
     * they are fetched at the same time. */
    enum { AHEAD = 32, FAR_AHEAD = 64 };
    const uintptr_t calls = (uintptr_t)object->jump_relocations, others = (uintptr_t)object->rela;
    for (uint32_t i = 1; i < end; i++) {
        __builtin_prefetch((const void *)((uintptr_t)symbols + (i + FAR_AHEAD) * sizeof *symbols));
        __builtin_prefetch((const void *)(calls + (i + AHEAD) * sizeof(ElfW(Rela))));
        __builtin_prefetch((const void *)(others + (i + AHEAD) * sizeof(ElfW(Rela))));
        if (i + AHEAD < end)
            __builtin_prefetch(strings + symbols[i + AHEAD].st_name);
        if ((defined || symbols[i].st_shndx == SHN_UNDEF) && symbols[i].st_name < capacity &&
            hf_name_may_start(starts, hf_name_start(strings + symbols[i].st_name)))
            want_if_named(wanted, object, i);
    }
}

/* Returns the largest symbol index used by a relocation, for objects whose hash tables do not give
 * the number of symbols. */
static uint32_t highest_relocated(const struct hf_object *object)
{
    uint32_t highest = 0;
    const ElfW(Rela) *tables[] = {object->jump_relocations, object->rela};
    const size_t sizes[] = {object->jump_relocations_size, object->rela_size};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t] != NULL && i < sizes[t] / sizeof(ElfW(Rela)); i++) {
            uint32_t symbol = (uint32_t)ELF64_R_SYM(tables[t][i].r_info);
            highest = symbol > highest ? symbol : highest;
        }
    return highest;
}

static void find_wanted(const struct hf_object *object, bool defined, struct wanted *wanted)
{
    uint32_t end;
    /* A GNU hash table covers the defined symbols, which follow the undefined ones. A table without
     * symbols gives no bound (its first index is 1 or the table's end), and a program's table also
     * covers undefined functions, whose addresses are those of its PLT. */
    bool program = object->map->l_prev == NULL;
    if (object->gnu_hash != NULL && object->gnu_hash[1] > 1 && !program)
        end = object->gnu_hash[1];
    else if (object->sysv_hash != NULL)
        end = object->sysv_hash[1];
    else
        end = highest_relocated(object) + 1;
    if (end > object->symbols_capacity)
        end = (uint32_t)object->symbols_capacity;
    want_by_name(wanted, object, end, defined);
    if (!defined)
        return;
    for (int function = 0; function < wanted->names->count; function++) {
        const ElfW(Sym) *symbol = hf_object_symbol(object, wanted->names->name(function));
        if (symbol != NULL)
            want(wanted, (uint32_t)(symbol - object->symbols), function);
    }
}

static void visit_table(const struct hf_object *object, const struct wanted *wanted,
                        const ElfW(Rela) *table, size_t count, hf_slot_visitor *visit,
                        void *context)
{
    const uint64_t rests = wanted->rests;
    for (size_t i = 0; i < count; i++) {
        uint32_t symbol = (uint32_t)ELF64_R_SYM(table[i].r_info);
        if ((rests >> symbol % 64 & 1) == 0)
            continue;
        enum hf_slot_kind kind;
        switch (ELF64_R_TYPE(table[i].r_info)) {
        case JUMP_SLOT:
            kind = HF_SLOT_CALL;
            break;
        case GLOB_DAT:
            kind = HF_SLOT_DATA;
            break;
        case ABSOLUTE:
            kind = HF_SLOT_WORD;
            break;
        default:
            continue;
        }
        for (size_t w = 0; w < wanted->count; w++) {
            if (wanted->symbols[w] != symbol)
                continue;
            struct hf_slot slot = {(void **)(object->base + table[i].r_offset),
                                   wanted->functions[w], kind, symbol, i};
            if (hf_object_capacity(object, slot.address) >= sizeof *slot.address)
                visit(&slot, context);
            break;
        }
    }
}

static void visit_wanted(const struct hf_object *object, const struct wanted *wanted,
                         hf_slot_visitor *visit, void *context)
{
    if (wanted->count == 0)
        return;
    if (object->jump_relocations != NULL && object->jump_is_rela)
        visit_table(object, wanted, object->jump_relocations,
                    object->jump_relocations_size / sizeof(ElfW(Rela)), visit, context);
    if (object->rela == NULL)
        return;
    size_t skip = object->rela_relative_count, count = object->rela_size / sizeof(ElfW(Rela));
    /* Some linkers include the PLT's relocations in this table. */
    const ElfW(Rela) *jump = object->jump_relocations;
    if (jump >= object->rela && jump < object->rela + count)
        count = (size_t)(jump - object->rela);
    if (skip < count)
        visit_table(object, wanted, object->rela + skip, count - skip, visit, context);
}

void hf_slots_visit(const struct hf_object *object, const struct hf_function_names *names,
                    bool defined, hf_slot_visitor *visit, void *context)
{
    struct wanted wanted;
    wanted.names = names;
    wanted.count = 0;
    wanted.rests = 0;
    find_wanted(object, defined, &wanted);
    visit_wanted(object, &wanted, visit, context);
}

void hf_slots_visit_all(const struct hf_object *object, const struct hf_function_names *names,
                        hf_slot_visitor *visit, void *context)
{
    struct wanted wanted;
    uint32_t end = highest_relocated(object) + 1;
    wanted.names = names;
    wanted.count = 0;
    wanted.rests = 0;
    if (end > object->symbols_capacity)
        end = (uint32_t)object->symbols_capacity;
    want_by_name(&wanted, object, end, false);
    visit_wanted(object, &wanted, visit, context);
}
