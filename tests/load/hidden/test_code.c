/*
 * What the analysis of hidden allocators reads in code for aarch64, on every machine: instructions
 * by themselves, addresses that several of them form, and what it writes in their place. The
 * words come from GNU's assembler.
 */
#include "satellites/adopt/hidden/flow.h"
#include "tests/support/suite.h"

#include <elf.h>
#include <stdarg.h>
#include <string.h>

enum { HERE = 0x4000, NONE = HF_REGISTER_NONE };

static const struct hf_code *code;

static struct hf_instruction decoded(uint32_t word)
{
    struct hf_instruction instruction;
    ck_assert(code->decode((const unsigned char *)&word, sizeof word, HERE, &instruction));
    ck_assert_uint_eq(instruction.length, 4);
    return instruction;
}

static struct hf_effect effect_of(uint32_t word)
{
    struct hf_effect effect;
    code->effect((const unsigned char *)&word, HERE, &effect);
    return effect;
}

static uint32_t set(unsigned number)
{
    return UINT32_C(1) << number;
}

START_TEST(where_instructions_lead)
{
    static const struct {
        uint32_t word;
        enum hf_code_kind kind;
        int64_t distance; /* 0: none */
    } rows[] = {
        {0x14000004, HF_CODE_JUMP, 16},   /* b */
        {0x97fffffe, HF_CODE_CALL, -8},   /* bl */
        {0x54000060, HF_CODE_BRANCH, 12}, /* b.eq */
        {0xb4ffffe3, HF_CODE_BRANCH, -4}, /* cbz x3 */
        {0x37180045, HF_CODE_BRANCH, 8},  /* tbnz w5, #3 */
        {0x5400007f, HF_CODE_BRANCH, 12}, /* bc.nv */
        {0x74a10040, HF_CODE_BRANCH, 8},  /* cbhi w0, w1 */
        {0xd65f03c0, HF_CODE_END, 0},     /* ret */
        {0xd65f0bff, HF_CODE_END, 0},     /* retaa */
        {0xd61f0220, HF_CODE_END, 0},     /* br x17 */
        {0xd71f0864, HF_CODE_END, 0},     /* braa x3, x4 */
        {0xd4207d00, HF_CODE_END, 0},     /* brk #0x3e8 */
        {0x00000000, HF_CODE_END, 0},     /* udf #0 */
        {0xd63f0020, HF_CODE_OTHER, 0},   /* blr x1 */
        {0xd503201f, HF_CODE_OTHER, 0},   /* nop */
        {0xd4000001, HF_CODE_OTHER, 0},   /* svc #0 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct hf_instruction instruction = decoded(rows[i].word);
        ck_assert_msg(instruction.kind == rows[i].kind, "row %zu", i);
        ck_assert_uint_eq(instruction.target,
                          rows[i].distance == 0 ? 0 : HERE + (uint64_t)rows[i].distance);
    }
    ck_assert_uint_eq(decoded(0x58000100).operand, HERE + 32); /* ldr x0, .+32 */
    ck_assert(decoded(0x90000000).forms && decoded(0x10000000).forms && !decoded(0).forms);
}
END_TEST

START_TEST(what_is_no_instruction)
{
    const uint32_t word = 0xd503201f;
    struct hf_instruction instruction;
    const unsigned char *bytes = (const unsigned char *)&word;
    ck_assert(!code->decode(bytes, 3, HERE, &instruction));
    ck_assert(!code->decode(bytes, 4, HERE + 2, &instruction));
    ck_assert_ptr_null(hf_code_of(EM_RISCV));
    ck_assert_ptr_eq(hf_code_of(EM_X86_64), &hf_code_x86);
}
END_TEST

START_TEST(results)
{
    struct hf_effect effect = effect_of(0x100091a2); /* adr x2, .+0x1234 */
    ck_assert(effect.result == HF_RESULT_ADDRESS && effect.to == 2);
    ck_assert_uint_eq(effect.value, HERE + 0x1234);
    effect = effect_of(0xf0fffff0); /* adrp x16, one page back */
    ck_assert(effect.result == HF_RESULT_PAGE && effect.to == 16);
    ck_assert_uint_eq(effect.value, HERE - 4096);
    effect = effect_of(0x91048c41); /* add x1, x2, #0x123 */
    ck_assert(effect.result == HF_RESULT_SUM && effect.base == 2 && effect.offset == 0x123);
    effect = effect_of(0x91400841); /* add x1, x2, #2, lsl #12 */
    ck_assert_int_eq(effect.offset, 0x2000);
    effect = effect_of(0xd1002041); /* sub x1, x2, #8 */
    ck_assert_int_eq(effect.offset, -8);
    effect = effect_of(0xaa0503e4); /* mov x4, x5 */
    ck_assert(effect.result == HF_RESULT_ONE_OF && effect.sources == set(5) && effect.reads == 0);
    effect = effect_of(0x9a830041); /* csel x1, x2, x3, eq */
    ck_assert(effect.result == HF_RESULT_ONE_OF && effect.sources == (set(2) | set(3)));
    effect = effect_of(0x910043e0); /* add x0, sp, #16 */
    ck_assert(effect.result == HF_RESULT_NONE || effect.base == 31);
    ck_assert_uint_eq(effect.changes, set(0));
}
END_TEST

START_TEST(memory)
{
    static const struct {
        uint32_t word;
        unsigned base;
        int offset;
        bool advances;
        unsigned stored[2], loaded[2];
        uint32_t changes;
    } rows[] = {
        {0xf9400841, 2, 16, false, {NONE, NONE}, {1, NONE}, 1 << 1},   /* ldr x1, [x2, #16] */
        {0x3dc00841, 2, 32, false, {NONE, NONE}, {NONE, NONE}, 0},     /* ldr q1, [x2, #32] */
        {0xf8010441, 2, 0, true, {1, NONE}, {NONE, NONE}, 0},          /* str x1, [x2], #16 */
        {0xa9020be1, 31, 32, false, {1, 2}, {NONE, NONE}, 0},          /* stp x1, x2, [sp, #32] */
        {0xa97f0ba1, 29, -16, false, {NONE, NONE}, {1, 2}, 6},         /* ldp x1, x2, [x29, #-16] */
        {0xf85f8041, 2, -8, false, {NONE, NONE}, {1, NONE}, 1 << 1},   /* ldur x1, [x2, #-8] */
        {0x39000c41, 2, 3, false, {1, NONE}, {NONE, NONE}, 0},         /* strb w1, [x2, #3] */
        {0xb9800441, 2, 4, false, {NONE, NONE}, {NONE, NONE}, 2},      /* ldrsw x1, [x2, #4] */
        {0xc85f7c41, 2, 0, false, {NONE, NONE}, {NONE, NONE}, 2},      /* ldxr x1, [x2] */
        {0xc8037c41, 2, 0, false, {1, NONE}, {NONE, NONE}, 1 << 3},    /* stxr w3, x1, [x2] */
        {0xf8210062, 3, 0, false, {NONE, NONE}, {NONE, NONE}, 1 << 2}, /* ldadd x1, x2, [x3] */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct hf_effect effect = effect_of(rows[i].word);
        ck_assert_msg(effect.accesses && effect.base == rows[i].base &&
                          effect.offset == rows[i].offset && effect.advances == rows[i].advances &&
                          effect.changes == rows[i].changes,
                      "row %zu", i);
        for (size_t j = 0; j < 2; j++)
            ck_assert_msg(effect.stored[j] == rows[i].stored[j] &&
                              effect.loaded[j] == rows[i].loaded[j],
                          "row %zu", i);
    }
    const struct hf_effect effect = effect_of(0xf8637841); /* ldr x1, [x2, x3, lsl #3] */
    ck_assert(!effect.accesses && effect.reads == (set(2) | set(3)) && effect.changes == set(1));
}
END_TEST

START_TEST(registers)
{
    static const struct {
        uint32_t word, reads, hides, changes;
    } rows[] = {
        {0xdac012e6, 1 << 23, 0, 1 << 6},                  /* clz x6, x23 */
        {0x9e670268, 0, 1 << 19, 0},                       /* fmov d8, x19 */
        {0x4e183f81, 0, 0, 0},                             /* mov x1, v28.d[1] */
        {0x4e080e63, 1 << 19, 0, 0},                       /* dup v3.2d, x19 */
        {0xf2a000e3, 1 << 3, 0, 1 << 3},                   /* movk x3, #7, lsl #16 */
        {0xeb02003f, 0, 0, 0},                             /* cmp x1, x2 */
        {0xfa420024, 1 << 1 | 1 << 2, 0, 0},               /* ccmp x1, x2, #4, eq */
        {0x9b031041, 1 << 2 | 1 << 3 | 1 << 4, 0, 1 << 1}, /* madd x1, x2, x3, x4 */
        {0xd53bd041, 0, 0, 1 << 1},                        /* mrs x1, tpidr_el0 */
        {0xc8a17c62, 1 << 1 | 1 << 2, 0, 0},               /* cas x1, x2, [x3] */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct hf_effect effect = effect_of(rows[i].word);
        ck_assert_msg(effect.reads == rows[i].reads && effect.hides == rows[i].hides &&
                          effect.changes == rows[i].changes,
                      "row %zu", i);
    }
    /* A form that is not known reads whatever it could. */
    ck_assert_uint_eq(effect_of(0x04e30041).reads, set(0) | set(1) | set(2) | set(3));
}
END_TEST

/* ---- addresses that several instructions form ----------------------------------------------- */

static const uint32_t program[] = {
    /* beside */
    0xf00000e0, /* adrp x0, 20000 */
    0x91006000, /* add x0, x0, #0x18 */
    0xb9400801, /* ldr w1, [x0, #8] */
    0xd65f03c0, /* ret */
    /* anchor */
    0xf00000e0, /* adrp x0, 20000 */
    0x91000000, /* add x0, x0, #0x0 */
    0xb9401801, /* ldr w1, [x0, #24] */
    0xd2800000, /* mov x0, #0x0 */
    0xd65f03c0, /* ret */
    /* apart */
    0xf00000f3, /* adrp x19, 20000 */
    0x34000060, /* cbz w0, 1034 */
    0xaa1303f4, /* mov x20, x19 */
    0x14000003, /* b 103c */
    0xaa1303f4, /* mov x20, x19 */
    0xd503201f, /* nop */
    0x94000034, /* bl 110c */
    0xb9404280, /* ldr w0, [x20, #64] */
    0xd65f03c0, /* ret */
    /* selected */
    0xf00000e1, /* adrp x1, 20000 */
    0x90000102, /* adrp x2, 21000 */
    0x9a820020, /* csel x0, x1, x2, eq */
    0xb9400800, /* ldr w0, [x0, #8] */
    0xd65f03c0, /* ret */
    /* kept */
    0xf00000e8, /* adrp x8, 20000 */
    0xf90007e8, /* str x8, [sp, #8] */
    0xd2800008, /* mov x8, #0x0 */
    0xf94007e9, /* ldr x9, [sp, #8] */
    0xb9404920, /* ldr w0, [x9, #72] */
    0xd65f03c0, /* ret */
    /* pair */
    0xf00000e8, /* adrp x8, 20000 */
    0xf00000e9, /* adrp x9, 20000 */
    0xa90127e8, /* stp x8, x9, [sp, #16] */
    0xa9410be1, /* ldp x1, x2, [sp, #16] */
    0xb900585f, /* str wzr, [x2, #88] */
    0xd2800000, /* mov x0, #0x0 */
    0xd65f03c0, /* ret */
    /* part */
    0xf00000f3, /* adrp x19, 20000 */
    0x14000020, /* b 1114 */
    /* table */
    0xf00000e3, /* adrp x3, 20000 */
    0x10000061, /* adr x1, 10a8 */
    0x8b208820, /* add x0, x1, w0, sxtb #2 */
    0xd61f0000, /* br x0 */
    0xd65f03c0, /* ret */
    0xb9406860, /* ldr w0, [x3, #104] */
    0xd65f03c0, /* ret */
    /* tail */
    0xf00000e8, /* adrp x8, 20000 */
    0x9101c108, /* add x8, x8, #0x70 */
    0xf9400104, /* ldr x4, [x8] */
    0xd61f0080, /* br x4 */
    /* loop */
    0xf00000e0, /* adrp x0, 20000 */
    0x91000000, /* add x0, x0, #0x0 */
    0x91010009, /* add x9, x0, #0x40 */
    0xf8408402, /* ldr x2, [x0], #8 */
    0xeb09001f, /* cmp x0, x9 */
    0x54ffffc1, /* b.ne 10d0 */
    0xd2800000, /* mov x0, #0x0 */
    0xd65f03c0, /* ret */
    /* passed */
    0xf00000e0, /* adrp x0, 20000 */
    0x9101e000, /* add x0, x0, #0x78 */
    0x14000008, /* b 110c */
    /* vector */
    0xf00000e0, /* adrp x0, 20000 */
    0x9e670008, /* fmov d8, x0 */
    0xd65f03c0, /* ret */
    /* behind */
    0xf00000e0, /* adrp x0, 20000 */
    0x94000007, /* bl 111c */
    0x91000000, /* add x0, x0, #0x0 */
    0xd65f03c0, /* ret */
    /* fun */
    0xb9400000, /* ldr w0, [x0] */
    0xd65f03c0, /* ret */
    /* cold */
    0xb9006260, /* str w0, [x19, #96] */
    0xd65f03c0, /* ret */
    /* endless */
    0xd4200020, /* brk #0x1 */
};

static struct hf_function functions[] = {
    {.address = 0x1000, .size = 16, .name = "beside"},
    {.address = 0x1010, .size = 20, .name = "anchor"},
    {.address = 0x1024, .size = 36, .name = "apart"},
    {.address = 0x1048, .size = 20, .name = "selected"},
    {.address = 0x105c, .size = 24, .name = "kept"},
    {.address = 0x1074, .size = 28, .name = "pair"},
    {.address = 0x1090, .size = 8, .name = "part"},
    {.address = 0x1098, .size = 28, .name = "table"},
    {.address = 0x10b4, .size = 16, .name = "tail"},
    {.address = 0x10c4, .size = 32, .name = "loop"},
    {.address = 0x10e4, .size = 12, .name = "passed"},
    {.address = 0x10f0, .size = 12, .name = "vector"},
    {.address = 0x10fc, .size = 16, .name = "behind"},
    {.address = 0x110c, .size = 8, .name = "fun"},
    {.address = 0x1114, .size = 8, .name = "cold"},
    {.address = 0x111c, .size = 4, .name = "endless"},
};

struct gathered {
    uint64_t targets[16];
    size_t count;
    bool page;
};

static bool gather(const struct hf_flow_reference *reference, void *context)
{
    struct gathered *gathered = context;
    if (reference->target < 0x20000)
        return true;
    gathered->page |= reference->page;
    for (size_t i = 0; i < gathered->count; i++)
        if (gathered->targets[i] == reference->target)
            return true;
    ck_assert_uint_lt(gathered->count, 16);
    gathered->targets[gathered->count++] = reference->target;
    return true;
}

static struct gathered followed(const char *name)
{
    struct hf_stretch stretch = {
        .address = 0x1000,
        .size = sizeof program,
        .bytes_size = sizeof program,
        .bytes = (unsigned char *)(uintptr_t)program,
        .code = true,
    };
    const struct hf_image image = {.code = code, .stretches = &stretch, .stretches_count = 1};
    const struct hf_functions all = {
        .functions = functions,
        .count = sizeof functions / sizeof functions[0],
    };
    struct gathered gathered = {0};
    const struct hf_flow flow = {&image, &all, NULL, gather, &gathered};
    for (size_t i = 0; i < all.count; i++)
        if (strcmp(functions[i].name, name) == 0)
            ck_assert_int_eq(hf_flow_follow(&flow, &functions[i]), 0);
    return gathered;
}

/* A function refers to these places in data, and to no others. 0 is the end. */
static void refers_to(const char *name, ...)
{
    const struct gathered gathered = followed(name);
    va_list targets;
    size_t count = 0;
    va_start(targets, name);
    for (int target = va_arg(targets, int); target != 0; target = va_arg(targets, int), count++) {
        bool found = false;
        for (size_t i = 0; i < gathered.count; i++)
            found |= gathered.targets[i] == (uint64_t)target;
        ck_assert_msg(found, "%s does not refer to 0x%x", name, target);
    }
    va_end(targets);
    ck_assert_msg(gathered.count == count, "%s refers to 0x%llx too", name,
                  (unsigned long long)gathered.targets[gathered.count - 1]);
    ck_assert(!gathered.page);
}

START_TEST(addresses)
{
    refers_to("beside", 0x20018, 0x20020, 0);
    refers_to("anchor", 0x20018, 0);
    refers_to("apart", 0x20040, 0);
    refers_to("selected", 0x20008, 0x21008, 0);
    refers_to("kept", 0x20048, 0);
    refers_to("pair", 0x20058, 0);
    refers_to("part", 0x20060, 0);
    refers_to("table", 0x20068, 0);
    refers_to("tail", 0x20070, 0);
    refers_to("loop", 0x20000, 0);
    refers_to("passed", 0x20078, 0);
    refers_to("behind", 0);
}
END_TEST

START_TEST(a_page_that_is_kept_elsewhere)
{
    const struct gathered gathered = followed("vector");
    ck_assert(gathered.page && gathered.count == 1 && gathered.targets[0] == 0x20000);
}
END_TEST

/* ---- writing -------------------------------------------------------------------------------- */

static size_t through(uint32_t before, size_t capacity, uint64_t slot, uint32_t words[4])
{
    memset(words, 0, HF_CODE_JUMP_MAX);
    return code->jump_through((const unsigned char *)&before, capacity, HERE, slot,
                              (unsigned char *)words);
}

START_TEST(a_jump_through_a_slot)
{
    uint32_t words[4];
    ck_assert_uint_eq(through(0xd503201f, 12, 0x12348, words), 12);
    struct hf_effect effect = effect_of(words[0]);
    ck_assert(effect.result == HF_RESULT_PAGE && effect.to == 16 && effect.value == 0x12000);
    effect = effect_of(words[1]);
    ck_assert(effect.base == 16 && effect.offset == 0x348 && effect.loaded[0] == 17);
    ck_assert_uint_eq(words[2], 0xd61f0220); /* br x17 */
    ck_assert_uint_eq(through(0xd503201f, 8, 0x12348, words), 0);
    ck_assert_uint_eq(through(0xd503201f, 16, UINT64_C(1) << 33, words), 0);
    ck_assert_uint_eq(through(0xd503201f, 16, 0x12344, words), 0);
}
END_TEST

START_TEST(a_landing_pad_stays)
{
    static const uint32_t pads[] = {0xd503245f, 0xd50324df, 0xd503233f, 0xd503237f};
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++) {
        uint32_t words[4];
        ck_assert_uint_eq(through(pads[i], 16, 0x12348, words), 16);
        ck_assert_uint_eq(words[0], 0xd503245f); /* bti c */
        ck_assert_uint_eq(words[3], 0xd61f0220);
        ck_assert_uint_eq(through(pads[i], 12, 0x12348, words), 0);
    }
}
END_TEST

START_TEST(a_short_jump)
{
    const uint32_t ret = 0xd65f03c0, pad = 0xd503245f;
    uint32_t words[4];
    unsigned char *out = (unsigned char *)words;
    ck_assert_uint_eq(code->jump_to((const unsigned char *)&ret, 4, HERE, HERE - 64, out), 4);
    ck_assert_uint_eq(decoded(words[0]).target, HERE - 64);
    ck_assert_uint_eq(code->jump_to((const unsigned char *)&pad, 8, HERE, HERE + 64, out), 8);
    ck_assert_uint_eq(words[0], pad);
    ck_assert_uint_eq(decoded(words[1]).target, HERE + 64 - 4);
    ck_assert_uint_eq(code->jump_to((const unsigned char *)&pad, 4, HERE, HERE + 64, out), 0);
    ck_assert_uint_eq(
        code->jump_to((const unsigned char *)&ret, 4, HERE, HERE + (UINT64_C(1) << 27), out), 0);
}
END_TEST

START_TEST(padding)
{
    const uint32_t words[] = {0xd503201f, 0, 0xd503201f, 0xd65f03c0};
    ck_assert(code->is_padding((const unsigned char *)words, 12));
    ck_assert(!code->is_padding((const unsigned char *)words, 16));
    ck_assert(!code->is_padding((const unsigned char *)words, 10));
}
END_TEST

int main(void)
{
    code = hf_code_of(EM_AARCH64);
    return RUN_SUITE(where_instructions_lead, what_is_no_instruction, results, memory, registers,
                     addresses, a_page_that_is_kept_elsewhere, a_jump_through_a_slot,
                     a_landing_pad_stays, a_short_jump, padding);
}
