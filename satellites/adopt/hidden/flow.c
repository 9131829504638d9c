/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See flow.h. A data flow analysis: for each block of instructions the values that may be in each
 * register at its beginning, until nothing new turns up.
 *
 * Only values that the function itself forms are followed, also into the code of other functions to
 * which it jumps while it has some: parts that the compiler has put elsewhere (.cold), functions at
 * the end (tail calls) and stubs that linkers insert.
 */
#include "satellites/adopt/hidden/flow.h"

#include "satellites/adopt/hidden/arrays.h"

#include "satellites/adopt/hidden/linkage_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD = 4,
    VALUES_FIRST = 64,
    VALUES_MAX = 1 << 14,
    BUCKETS = 1 << 10,
    SET_MAX = 14,
    SUMS_MAX = 2,        /* additions behind the first */
    WORDS_MAX = 1 << 20, /* instructions in all pieces */
    SLOTS_MAX = 256,
    STACK = 31,
    FRAME = 29
};

/* A value that some instruction forms. */
struct value {
    uint64_t address, root, where;
    uint32_t next; /* in its bucket */
    uint8_t sums;
    bool page;
    bool referred; /* it is used, or goes where it cannot be followed */
};

/* Some values, by index. A full one has only pages; its addresses count as used. */
struct set {
    uint16_t count;
    bool full;
    uint16_t values[SET_MAX];
};

struct state {
    struct set registers[HF_REGISTERS];
    uint32_t computed; /* registers that may hold the address of a place in the function */
};

/* Code that is looked at: all of a function, or the blocks of another that it jumps to. */
struct piece {
    uint64_t address;
    size_t count; /* instructions */
    const unsigned char *bytes;
    uint32_t *blocks; /* by instruction: the index of the block that begins there, or NO_BLOCK */
    bool *endless;    /* by instruction: a call that does not return */
    uint32_t *live;   /* by instruction: registers whose values matter from there on */
    struct state anywhere; /* what may be in the registers behind an indirect jump */
    bool jumps;            /* there is one */
};
#define NO_BLOCK UINT32_MAX
#define NO_VALUE UINT32_MAX
#define ALL      ((UINT32_C(1) << HF_REGISTERS) - 1)

struct block {
    uint32_t piece, first;
    bool reached, pending;
    struct state state;
};

/* A word of the stack frame, in which registers are kept. */
struct slot {
    unsigned base;
    int64_t offset;
    struct set set;
};

/* Whether the function at an address returns. */
struct answer {
    uint64_t address;
    bool endless;
};

struct run {
    const struct hf_flow *flow;
    struct answer answers[512];
    struct value *values;
    size_t values_count, values_capacity;
    uint32_t buckets[BUCKETS];
    struct piece *pieces;
    size_t pieces_count, pieces_capacity, words;
    struct block *blocks;
    size_t blocks_count, blocks_capacity;
    struct slot slots[SLOTS_MAX];
    size_t slots_count;
    bool again; /* a slot has changed, or what is anywhere */
    int error;
};

/* ---- values --------------------------------------------------------------------------------- */

static uint32_t intern(struct run *run, const struct value *wanted)
{
    uint32_t *bucket =
        &run->buckets[(wanted->address ^ wanted->address >> 12 ^ wanted->sums) % BUCKETS];
    for (uint32_t i = *bucket; i != NO_VALUE; i = run->values[i].next) {
        const struct value *value = &run->values[i];
        if (value->address == wanted->address && value->root == wanted->root &&
            value->sums == wanted->sums && value->page == wanted->page)
            return i;
    }
    if (run->values_count == VALUES_MAX) {
        run->error = -ENOTSUP;
        return NO_VALUE;
    }
    if (hf_array_more(&run->values, run->values_count, &run->values_capacity,
                      sizeof *run->values) != 0) {
        run->error = -ENOMEM;
        return NO_VALUE;
    }
    const uint32_t index = (uint32_t)run->values_count++;
    run->values[index] = *wanted;
    run->values[index].next = *bucket;
    *bucket = index;
    return index;
}

/* Takes note of a reference to an address. */
static void refer(struct run *run, uint64_t address, uint64_t where)
{
    const struct value value = {
        .address = address, .root = address, .where = where, .sums = UINT8_MAX};
    const uint32_t index = intern(run, &value);
    if (index != NO_VALUE)
        run->values[index].referred = true;
}

static void escape(struct run *run, const struct set *set)
{
    for (unsigned i = 0; i < set->count; i++)
        run->values[set->values[i]].referred = true;
}

/* The place in a page is added by the few instructions for which linkers can do so, and these are
 * followed. Where others use a page, it is one that is left in a register, or that is only there on
 * a way that is never taken, such as one behind a call of abort(). */
static void escape_addresses(struct run *run, const struct set *set)
{
    for (unsigned i = 0; i < set->count; i++)
        if (!run->values[set->values[i]].page)
            run->values[set->values[i]].referred = true;
}

static void pass(struct run *run, const struct state *state, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        escape_addresses(run, &state->registers[i]);
}

static bool has(const struct set *set, uint32_t value)
{
    for (unsigned i = 0; i < set->count; i++)
        if (set->values[i] == value)
            return true;
    return false;
}

/* Gives up following addresses; each counts as used. Pages are few. */
static void fill(struct run *run, struct set *set)
{
    unsigned kept = 0;
    escape_addresses(run, set);
    for (unsigned i = 0; i < set->count; i++)
        if (run->values[set->values[i]].page)
            set->values[kept++] = set->values[i];
    set->count = (uint16_t)kept;
    set->full = true;
}

/* Returns whether the set has changed. */
static bool add(struct run *run, struct set *set, uint32_t value)
{
    bool changed = false;
    if (value == NO_VALUE || has(set, value))
        return false;
    if (set->count == SET_MAX && !set->full) {
        fill(run, set);
        changed = true;
    }
    if (set->count == SET_MAX || (set->full && !run->values[value].page)) {
        run->values[value].referred = true;
        return changed;
    }
    set->values[set->count++] = (uint16_t)value;
    return true;
}

static bool add_all(struct run *run, struct set *to, const struct set *from)
{
    bool changed = from->full && !to->full;
    if (changed)
        fill(run, to);
    for (unsigned i = 0; i < from->count; i++)
        changed |= add(run, to, from->values[i]);
    return changed;
}

/* Adds the values of some registers. */
static bool add_state(struct run *run, struct state *to, const struct state *from,
                      uint32_t registers)
{
    bool changed = false;
    for (unsigned i = 0; i < HF_REGISTERS; i++)
        if ((registers >> i & 1) != 0)
            changed |= add_all(run, &to->registers[i], &from->registers[i]);
    changed |= (from->computed & ~to->computed) != 0;
    to->computed |= from->computed;
    return changed;
}

static bool is_empty(const struct state *state, uint32_t registers)
{
    for (unsigned i = 0; i < HF_REGISTERS; i++)
        if ((registers >> i & 1) != 0 && state->registers[i].count != 0)
            return false;
    return true;
}

/* ---- pieces and blocks ---------------------------------------------------------------------- */

static uint32_t begin_block(struct run *run, uint32_t piece, size_t word)
{
    uint32_t *block = &run->pieces[piece].blocks[word];
    if (*block != NO_BLOCK)
        return *block;
    if (hf_array_more(&run->blocks, run->blocks_count, &run->blocks_capacity,
                      sizeof *run->blocks) != 0) {
        run->error = -ENOMEM;
        return NO_BLOCK;
    }
    *block = (uint32_t)run->blocks_count++;
    run->blocks[*block] = (struct block){.piece = piece, .first = (uint32_t)word};
    return *block;
}

static bool never_returns(struct run *run, uint64_t target)
{
    struct answer *answer =
        &run->answers[target / WORD % (sizeof run->answers / sizeof run->answers[0])];
    if (answer->address != target)
        *answer = (struct answer){
            target, hf_call_never_returns(run->flow->image, run->flow->functions, target)};
    return answer->endless;
}

/* A call that does not return ends a block like a jump. */
static bool decode(const struct run *run, const struct piece *piece, size_t word,
                   struct hf_instruction *out)
{
    if (!run->flow->image->code->decode(piece->bytes + word * WORD, WORD,
                                        piece->address + word * WORD, out))
        return false;
    if (piece->endless[word])
        out->kind = HF_CODE_END;
    return true;
}

/* Finds where blocks begin. */
static void split(struct run *run, uint32_t index)
{
    struct piece *piece = &run->pieces[index];
    bool begins = true;
    for (size_t word = 0; run->error == 0 && word < piece->count; word++) {
        struct hf_instruction instruction;
        if (begins)
            (void)begin_block(run, index, word);
        if (!decode(run, piece, word, &instruction)) {
            run->error = -ENOTSUP;
            return;
        }
        if (instruction.kind == HF_CODE_CALL && never_returns(run, instruction.target)) {
            piece->endless[word] = true;
            instruction.kind = HF_CODE_END;
        }
        begins = instruction.kind != HF_CODE_OTHER && instruction.kind != HF_CODE_CALL;
        const uint64_t to = (instruction.target - piece->address) / WORD;
        if (begins && instruction.kind != HF_CODE_END && to < piece->count)
            (void)begin_block(run, index, to);
    }
}

static uint32_t set_of(unsigned number)
{
    return number < HF_REGISTERS ? UINT32_C(1) << number : 0;
}

/* Behind a call of another object's function nothing is left in the registers that belong to it.
 * Compilers know more about one in the same object (-fipa-ra). */
static uint32_t lost_by_call(const struct run *run, const struct hf_instruction *instruction)
{
    enum { SCRATCH = 19 };
    return instruction->kind == HF_CODE_CALL &&
                   hf_image_is_linkage(run->flow->image, instruction->target)
               ? (UINT32_C(1) << SCRATCH) - 1
               : 0;
}

/* The registers that matter in front of an instruction. */
static uint32_t live_before(const struct run *run, const struct piece *piece, size_t word)
{
    struct hf_instruction instruction;
    struct hf_effect effect;
    uint32_t behind = 0;
    (void)decode(run, piece, word, &instruction);
    run->flow->image->code->effect(piece->bytes + word * WORD, piece->address + word * WORD,
                                   &effect);
    if (instruction.kind != HF_CODE_JUMP && instruction.kind != HF_CODE_END)
        behind |= word + 1 < piece->count ? piece->live[word + 1] : ALL;
    if (instruction.kind == HF_CODE_JUMP || instruction.kind == HF_CODE_BRANCH) {
        const uint64_t to = (instruction.target - piece->address) / WORD;
        behind |= to < piece->count ? piece->live[to] : ALL;
    }
    if (effect.indirect != 0)
        behind = ALL;
    behind &= ~(effect.changes | lost_by_call(run, &instruction));
    return behind | effect.reads | effect.hides | effect.sources | set_of(effect.base) |
           set_of(effect.stored[0]) | set_of(effect.stored[1]) |
           ((UINT32_C(1) << effect.passes) - 1);
}

static void find_live(const struct run *run, struct piece *piece)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t word = piece->count; word-- > 0;) {
            const uint32_t live = live_before(run, piece, word);
            changed |= live != piece->live[word];
            piece->live[word] = live;
        }
    }
}

/* The piece of a function; NO_BLOCK if it cannot be looked at. */
static uint32_t add_piece(struct run *run, const struct hf_function *function)
{
    for (uint32_t i = 0; i < run->pieces_count; i++)
        if (run->pieces[i].address == function->address)
            return i;
    uint64_t available;
    const unsigned char *bytes = hf_image_at(run->flow->image, function->address, &available);
    const size_t count = function->size / WORD;
    if (bytes == NULL || available < function->size || count > WORDS_MAX - run->words ||
        function->address % WORD != 0) {
        run->error = -ENOTSUP;
        return NO_BLOCK;
    }
    if (hf_array_more(&run->pieces, run->pieces_count, &run->pieces_capacity,
                      sizeof *run->pieces) != 0) {
        run->error = -ENOMEM;
        return NO_BLOCK;
    }
    struct piece *piece = &run->pieces[run->pieces_count];
    *piece = (struct piece){.address = function->address, .count = count, .bytes = bytes};
    piece->blocks = malloc((count + 1) * sizeof *piece->blocks);
    piece->live = calloc(count + 1, sizeof *piece->live);
    piece->endless = calloc(count + 1, sizeof *piece->endless);
    run->pieces_count++;
    if (piece->blocks == NULL || piece->live == NULL || piece->endless == NULL) {
        run->error = -ENOMEM;
        return NO_BLOCK;
    }
    memset(piece->blocks, 0xff, (count + 1) * sizeof *piece->blocks);
    run->words += count;
    split(run, (uint32_t)run->pieces_count - 1);
    if (run->error == 0)
        find_live(run, piece);
    return (uint32_t)run->pieces_count - 1;
}

/* What is in the registers also is at the beginning of a block. */
static void enter(struct run *run, uint32_t index, const struct state *state)
{
    if (index == NO_BLOCK)
        return;
    struct block *block = &run->blocks[index];
    const uint32_t live = run->pieces[block->piece].live[block->first];
    const bool changed = add_state(run, &block->state, state, live);
    block->pending |= changed || !block->reached;
    block->reached = true;
}

/* Goes on at an address, in whatever function that is. */
static void go_on(struct run *run, uint32_t from, uint64_t address, const struct state *state)
{
    const uint64_t here = (address - run->pieces[from].address) / WORD;
    if (here < run->pieces[from].count) {
        enter(run, begin_block(run, from, here), state);
        return;
    }
    if (is_empty(state, ALL))
        return;
    const struct hf_function *function = hf_function_at(run->flow->functions, address);
    if (function == NULL) { /* of a linkage table */
        pass(run, state, HF_REGISTERS);
        return;
    }
    const uint32_t index = add_piece(run, function);
    if (index == NO_BLOCK)
        return;
    const struct piece *piece = &run->pieces[index];
    const uint64_t there = (address - piece->address) / WORD;
    if (there < piece->count && !is_empty(state, piece->live[there]))
        enter(run, begin_block(run, index, there), state);
}

/* ---- instructions --------------------------------------------------------------------------- */

static struct slot *slot_at(struct run *run, unsigned base, int64_t offset)
{
    for (size_t i = 0; i < run->slots_count; i++)
        if (run->slots[i].base == base && run->slots[i].offset == offset)
            return &run->slots[i];
    if (run->slots_count == SLOTS_MAX)
        return NULL;
    struct slot *slot = &run->slots[run->slots_count++];
    *slot = (struct slot){.base = base, .offset = offset};
    return slot;
}

static bool is_frame(const struct hf_effect *effect)
{
    return effect->accesses && !effect->advances &&
           (effect->base == STACK || effect->base == FRAME);
}

static void store(struct run *run, const struct state *state, const struct hf_effect *effect)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct set *set =
            effect->stored[i] < HF_REGISTERS ? &state->registers[effect->stored[i]] : NULL;
        if (set == NULL || set->count == 0)
            continue;
        struct slot *slot =
            is_frame(effect) ? slot_at(run, effect->base, effect->offset + 8 * (int64_t)i) : NULL;
        escape_addresses(run, set);
        if (slot != NULL)
            run->again |= add_all(run, &slot->set, set);
        else if (is_frame(effect))
            escape(run, set);
    }
}

static void load(struct run *run, struct state *state, const struct hf_effect *effect)
{
    for (unsigned i = 0; i < 2; i++)
        for (size_t j = 0; effect->loaded[i] < HF_REGISTERS && j < run->slots_count; j++)
            if (run->slots[j].base == effect->base &&
                run->slots[j].offset == effect->offset + 8 * (int64_t)i)
                (void)add_all(run, &state->registers[effect->loaded[i]], &run->slots[j].set);
}

/* Memory at a value and an offset is accessed. */
static void access_at(struct run *run, const struct set *base, const struct hf_effect *effect)
{
    for (unsigned i = 0; i < base->count; i++) {
        const struct value value = run->values[base->values[i]];
        if (!value.page && effect->advances) /* a loop over an object */
            run->values[base->values[i]].referred = true;
        else
            refer(run, value.address + (uint64_t)effect->offset, value.where);
    }
}

static void add_sum(struct run *run, struct set *to, const struct set *base,
                    const struct hf_effect *effect)
{
    for (unsigned i = 0; i < base->count; i++) {
        struct value value = run->values[base->values[i]];
        value.address += (uint64_t)effect->offset;
        value.referred = false;
        if (value.page) {
            value.page = false;
            value.root = value.address;
        } else if (++value.sums > (effect->base == effect->to ? 1 : SUMS_MAX)) {
            refer(run, value.root, value.where); /* a loop over an object */
            continue;
        }
        (void)add(run, to, intern(run, &value));
    }
}

static struct set result_of(struct run *run, struct state *state, const struct hf_effect *effect,
                            bool own, uint64_t where)
{
    struct set result = {0};
    switch (effect->result) {
    case HF_RESULT_ADDRESS:
    case HF_RESULT_PAGE: {
        const struct hf_flow *flow = run->flow;
        if (!own || (flow->matters != NULL && !flow->matters(effect->value, flow->context)))
            break;
        const struct value value = {.address = effect->value,
                                    .root = effect->value,
                                    .where = where,
                                    .page = effect->result == HF_RESULT_PAGE};
        (void)add(run, &result, intern(run, &value));
        break;
    }
    case HF_RESULT_SUM:
        if (effect->base < HF_REGISTERS)
            add_sum(run, &result, &state->registers[effect->base], effect);
        break;
    case HF_RESULT_ONE_OF:
        if ((effect->sources & state->computed) != 0)
            state->computed |= set_of(effect->to);
        for (unsigned i = 0; i < HF_REGISTERS; i++)
            if ((effect->sources >> i & 1) != 0)
                (void)add_all(run, &result, &state->registers[i]);
        break;
    case HF_RESULT_NONE:
        break;
    }
    return result;
}

static void apply(struct run *run, struct state *state, const struct hf_effect *effect, bool own,
                  uint64_t where)
{
    if (effect->accesses && effect->base < HF_REGISTERS)
        access_at(run, &state->registers[effect->base], effect);
    store(run, state, effect);
    for (unsigned i = 0; i < HF_REGISTERS; i++)
        if ((effect->reads >> i & 1) != 0)
            escape_addresses(run, &state->registers[i]);
        else if ((effect->hides >> i & 1) != 0)
            escape(run, &state->registers[i]);
    pass(run, state, effect->passes);
    state->computed =
        effect->computes ? state->computed | effect->changes : state->computed & ~effect->changes;
    const struct set result = result_of(run, state, effect, own, where);
    for (unsigned i = 0; i < HF_REGISTERS; i++)
        if ((effect->changes >> i & 1) != 0)
            state->registers[i] = (struct set){0};
    if (effect->advances && effect->base < HF_REGISTERS)
        state->registers[effect->base] = (struct set){0};
    if (effect->accesses)
        load(run, state, effect);
    if (effect->result != HF_RESULT_NONE)
        state->registers[effect->to] = result;
}

/* A jump by a table leads to anywhere in the function: the address comes from an addition, or from
 * a table of addresses. Any other leads to another function. */
static void jump(struct run *run, struct piece *piece, const struct state *state, uint32_t by)
{
    if ((state->computed & by) == 0) {
        pass(run, state, HF_REGISTERS);
    } else if (!is_empty(state, ALL)) {
        piece->jumps = true;
        run->again |= add_state(run, &piece->anywhere, state, ALL);
    }
}

static void look_at(struct run *run, uint32_t index)
{
    const uint32_t number = run->blocks[index].piece;
    struct state state = run->blocks[index].state;
    run->blocks[index].pending = false;
    for (size_t word = run->blocks[index].first; run->error == 0; word++) {
        struct piece *piece = &run->pieces[number];
        const uint64_t address = piece->address + word * WORD;
        struct hf_instruction instruction;
        struct hf_effect effect;
        if (word >= piece->count ||
            (word != run->blocks[index].first && piece->blocks[word] != NO_BLOCK)) {
            go_on(run, number, address, &state);
            return;
        }
        if (piece->jumps)
            (void)add_state(run, &state, &piece->anywhere, piece->live[word]);
        if (!decode(run, piece, word, &instruction))
            return;
        run->flow->image->code->effect(piece->bytes + word * WORD, address, &effect);
        apply(run, &state, &effect, number == 0, address);
        for (unsigned i = 0; i < HF_REGISTERS; i++)
            if ((lost_by_call(run, &instruction) >> i & 1) != 0)
                state.registers[i] = (struct set){0};
        if (effect.indirect != 0)
            jump(run, piece, &state, effect.indirect);
        if (instruction.kind == HF_CODE_JUMP || instruction.kind == HF_CODE_BRANCH)
            go_on(run, number, instruction.target, &state);
        if (instruction.kind == HF_CODE_JUMP || instruction.kind == HF_CODE_END)
            return;
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void look(struct run *run)
{
    do {
        run->again = false;
        for (size_t i = 0; i < run->blocks_count; i++) {
            struct block *block = &run->blocks[i];
            const struct piece *piece = &run->pieces[block->piece];
            /* Nobody knows where an indirect jump in a function ends. */
            block->reached |= block->piece == 0 || piece->jumps;
            block->pending = block->reached;
        }
        for (bool changed = true; run->error == 0 && changed;) {
            changed = false;
            for (uint32_t i = 0; run->error == 0 && i < run->blocks_count; i++)
                if (run->blocks[i].pending) {
                    changed = true;
                    look_at(run, i);
                }
        }
    } while (run->error == 0 && run->again);
}

static int by_place(const void *left, const void *right)
{
    const struct value *one = left, *other = right;
    if (one->where != other->where)
        return one->where < other->where ? -1 : 1;
    return one->address < other->address ? -1 : one->address > other->address;
}

static void visit(struct run *run)
{
    const struct hf_flow *flow = run->flow;
    const struct piece *piece = &run->pieces[0];
    for (size_t word = 0; flow->matters == NULL && word < piece->count; word++) {
        struct hf_instruction instruction;
        if (!decode(run, piece, word, &instruction))
            return;
        const uint64_t targets[] = {instruction.target, instruction.operand};
        for (size_t i = 0; i < 2; i++) {
            const struct hf_flow_reference reference = {piece->address + word * WORD, targets[i],
                                                        false};
            if (targets[i] != 0 && !flow->visit(&reference, flow->context))
                return;
        }
    }
    if (run->values_count > 1)
        qsort(run->values, run->values_count, sizeof *run->values, by_place);
    for (size_t i = 0; i < run->values_count; i++) {
        const struct value *value = &run->values[i];
        const struct hf_flow_reference reference = {value->where, value->address, value->page};
        if (value->referred && !flow->visit(&reference, flow->context))
            return;
    }
}

int hf_flow_follow(const struct hf_flow *flow, const struct hf_function *function)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return -ENOMEM;
    run->values_capacity = VALUES_FIRST;
    run->values = calloc(run->values_capacity, sizeof *run->values);
    if (run->values == NULL) {
        free(run);
        return -ENOMEM;
    }
    run->flow = flow;
    memset(run->buckets, 0xff, sizeof run->buckets);
    (void)add_piece(run, function);
    if (run->error == 0)
        look(run);
    if (run->error == 0)
        visit(run);
    const int error = run->error;
    for (size_t i = 0; i < run->pieces_count; i++) {
        free(run->pieces[i].blocks);
        free(run->pieces[i].live);
        free(run->pieces[i].endless);
    }
    free(run->pieces);
    free(run->blocks);
    free(run->values);
    free(run);
    return error;
}
