/*
 * See unwind.h. Owns, for each thread, the walk that is under way.
 *
 * libgcc's unwinder asks _Unwind_Find_FDE for the unwind information of an address. Its own one
 * takes a mutex and may call malloc, and where the compiler was built for an older glibc it takes
 * the loader's lock. It also makes the unwinder read the code at an address without information,
 * which need not be mapped. So this file has a definition of its own, which looks in the table of
 * the object that _dl_find_object names, and ends the stack at any other address.
 */
#include "alloc/diagnose/unwind.h"

#include "alloc/base/dynlink.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

enum { OWN_FRAMES_MAX = 16, STACK_NEEDED = 16384 };

struct walk {
    const struct walk *self;
    const void *caller;
    const void **frames;
    size_t count;
    bool begun; /* `caller` was found */
    sigjmp_buf resume;
};

static __thread struct walk *current __attribute__((tls_model("initial-exec")));

/* ---- unwind information ---- */

/* What the unwinder wants to know of an object and a function; the interface of libgcc_s. */
struct bases {
    const void *text, *data;
    const void *function;
};

/* .eh_frame_hdr, as every linker writes it: LSB, "Exception Frame Header". */
struct table {
    uint8_t version;
    uint8_t frames_encoding, count_encoding, entries_encoding;
    int32_t frames;
    uint32_t count;
    struct entry {
        int32_t function, description; /* relative to the table */
    } entries[];
};

enum {
    COUNT_ENCODING = 0x03,   /* DW_EH_PE_udata4 */
    ENTRIES_ENCODING = 0x3b, /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */
    NO_ENCODING = 0xff,
    CIE_HEAD = 8
};

/* A description that the unwinder cannot read (it has an unknown augmentation): it stops there. */
static const struct {
    uint32_t common_length, common;
    uint8_t version;
    char augmentation[2];
    uint8_t rest[5];
    uint32_t length, to_common;
    uint64_t function, size;
} end_of_stack = {
    .common_length = 12,
    .version = 1,
    .augmentation = "?",
    .length = 20,
    .to_common = 20, /* bytes from here back to `common_length` */
};

static const uint8_t *skip_leb128(const uint8_t *at)
{
    while ((*at++ & 0x80) != 0)
        ;
    return at;
}

/* Bytes of a value; 0 if the encoding has no fixed size. */
static size_t size_of(uint8_t encoding)
{
    static const uint8_t sizes[8] = {sizeof(void *), 0, 2, 4, 8};
    return (encoding & 0x70) == 0x50 ? 0 : sizes[encoding & 7]; /* 0x50: aligned */
}

/* How a common entry (CIE) says that addresses are written. */
static uint8_t encoding_of(const uint8_t *common)
{
    const uint8_t version = common[CIE_HEAD];
    const char *augmentation = (const char *)common + CIE_HEAD + 1;
    const uint8_t *at = (const uint8_t *)augmentation + strlen(augmentation) + 1;
    if (augmentation[0] != 'z')
        return augmentation[0] == '\0' ? 0 : NO_ENCODING;
    if (version >= 4)
        at += 2;
    at = skip_leb128(skip_leb128(at));
    at = skip_leb128(version == 1 ? at + 1 : skip_leb128(at));
    for (const char *letter = augmentation + 1; *letter != '\0'; letter++) {
        if (*letter == 'R')
            return *at;
        if (*letter == 'P' && size_of(*at) != 0)
            at += 1 + size_of(*at);
        else if (*letter == 'L')
            at++;
        else if (*letter != 'S' && *letter != 'B')
            return NO_ENCODING;
    }
    return 0;
}

/* Whether a description (FDE) covers the address, `offset` bytes behind the function's first. */
static bool covers(const uint8_t *description, uintptr_t offset)
{
    uint32_t to_common;
    uint64_t size = 0;
    memcpy(&to_common, description + 4, sizeof to_common);
    const size_t width = size_of(encoding_of(description + 4 - to_common));
    if (width == 0)
        return false;
    memcpy(&size, description + 8 + width, width);
    return offset < size;
}

static const void *find_description(uintptr_t address, struct bases *bases)
{
    const struct table *table = hf_dynlink_unwind_table((const void *)address);
    if (table == NULL || table->version != 1 || size_of(table->frames_encoding) != 4 ||
        table->count_encoding != COUNT_ENCODING || table->entries_encoding != ENTRIES_ENCODING)
        return NULL;
    const intptr_t wanted = (intptr_t)(address - (uintptr_t)table);
    size_t first = 0, end = table->count;
    while (first < end) { /* all entries before `first` begin at or before the address */
        const size_t middle = first + (end - first) / 2;
        if (table->entries[middle].function <= wanted)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == 0)
        return NULL;
    const struct entry *entry = &table->entries[first - 1];
    const uint8_t *description = (const uint8_t *)table + entry->description;
    if (!covers(description, (uintptr_t)(wanted - entry->function)))
        return NULL;
    bases->text = bases->data = NULL;
    bases->function = (const char *)table + entry->function;
    return description;
}

const void *hf_find_description(const void *address,
                                struct bases *bases) __asm__("_Unwind_Find_FDE")
    __attribute__((visibility("hidden")));
const void *hf_find_description(const void *address, struct bases *bases)
{
    const void *description = find_description((uintptr_t)address, bases);
    if (description != NULL)
        return description;
    *bases = (struct bases){NULL, NULL, NULL};
    return &end_of_stack.length;
}

/* ---- walking ---- */

#ifdef HF_NO_UNWINDER
static void follow(struct walk *walk)
{
    (void)walk;
}
#else
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    int exact = 0; /* interrupted by a signal at this very instruction */
    const uintptr_t address = _Unwind_GetIPInfo(context, &exact);
    if (address == 0)
        return _URC_END_OF_STACK;
    const void *frame = (const void *)(address + (exact != 0));
    if (!walk->begun && frame == walk->caller && walk->count < OWN_FRAMES_MAX) {
        walk->begun = true;
        walk->count = 0;
    }
    walk->frames[walk->count++] = frame;
    return walk->count < HF_UNWIND_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The unwinder aborts if it does not find itself. */
static bool works(void)
{
    static atomic_bool found;
    struct bases bases;
    if (!atomic_load_explicit(&found, memory_order_relaxed) &&
        find_description((uintptr_t)&_Unwind_Backtrace + 1, &bases) != NULL)
        atomic_store_explicit(&found, true, memory_order_relaxed);
    return atomic_load_explicit(&found, memory_order_relaxed);
}

static void follow(struct walk *walk)
{
    if (works())
        (void)_Unwind_Backtrace(visit, walk);
}
#endif

size_t hf_unwind(const void *caller, const void *frames[HF_UNWIND_MAX])
{
    struct walk walk = {.self = &walk, .caller = caller, .frames = frames};
    /* A walk further in than this one was left by longjmp(3), from a handler of the program. */
    if (current != NULL && (uintptr_t)current > (uintptr_t)&walk)
        return 0;
    if (sigsetjmp(walk.resume, 0) == 0) {
        current = &walk;
        atomic_signal_fence(memory_order_seq_cst);
        follow(&walk);
    }
    atomic_signal_fence(memory_order_seq_cst);
    current = NULL;
    if (walk.begun)
        return walk.count;
    const struct link_map *own = hf_dynlink_find_fast(&end_of_stack);
    size_t skipped = 0;
    while (skipped < walk.count && hf_dynlink_find_fast((const char *)frames[skipped] - 1) == own)
        skipped++;
    memmove(frames, frames + skipped, (walk.count - skipped) * sizeof *frames);
    return walk.count - skipped;
}

bool hf_unwind_guard(void (*work)(void *), void *argument)
{
    struct walk walk = {.self = &walk};
    volatile bool whole = false;
    if (current != NULL && (uintptr_t)current > (uintptr_t)&walk)
        return false;
    if (sigsetjmp(walk.resume, 0) == 0) {
        current = &walk;
        atomic_signal_fence(memory_order_seq_cst);
        work(argument);
        whole = true;
    }
    atomic_signal_fence(memory_order_seq_cst);
    current = NULL;
    return whole;
}

/* Where a thread was interrupted; NULL if this machine's registers are not known here. */
struct place {
    const void *code, *stack;
};
static struct place interrupted_at(const ucontext_t *thread)
{
#if defined(__x86_64__)
    const greg_t *registers = thread->uc_mcontext.gregs;
    return (struct place){(const void *)(uintptr_t)registers[REG_RIP],
                          (const void *)(uintptr_t)registers[REG_RSP]};
#elif defined(__aarch64__)
    return (struct place){(const void *)(uintptr_t)thread->uc_mcontext.pc,
                          (const void *)(uintptr_t)thread->uc_mcontext.sp};
#else
    (void)thread;
    return (struct place){NULL, NULL};
#endif
}

void hf_unwind_recover(const void *context)
{
    struct walk *walk = current;
    const ucontext_t *thread = context;
    const struct place place = interrupted_at(thread);
    /* A handler of the program may have interrupted the walk, and crashed or left it. */
    if (walk == NULL || (uintptr_t)walk - (uintptr_t)place.stack > STACK_NEEDED ||
        walk->self != walk ||
        hf_dynlink_find_fast(place.code) != hf_dynlink_find_fast(&end_of_stack))
        return;
    (void)pthread_sigmask(SIG_SETMASK, &thread->uc_sigmask, NULL);
    siglongjmp(walk->resume, 1);
}
