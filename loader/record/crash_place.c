/*
 * Finds the object whose code a signal interrupted. Owns nothing, allocates nothing and never
 * blocks, so it may be called in a signal handler and by any thread.
 */
#include "loader/record/crash_place.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/maps.h"
#include "loader/interpose/slot_policy.h"

#include <gnu/libc-version.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

static enum hf_object_role role_of(const struct link_map *map)
{
    struct hf_object object;
    return hf_dynlink_open(map, &object) ? hf_object_role(&object) : HF_ROLE_NOTHING;
}

/* Whether libc or homefree ended the process with a message of their own, which already names the
 * cause. */
static bool has_spoken(void)
{
    struct hf_object object;
    const struct link_map *libc = hf_dynlink_find_fast((const void *)gnu_get_libc_version);
    char *const *message = libc != NULL && hf_dynlink_open(libc, &object)
                               ? hf_object_address(&object, "__abort_msg")
                               : NULL;
    return hf_fatal_spoken || (message != NULL && *message != NULL);
}

/* Whether the instruction before an address is a call. */
static bool is_after_call(uintptr_t address)
{
#if defined(__x86_64__)
    unsigned char code[7];
    if (!hf_maps_read((const void *)(address - sizeof code), code, sizeof code))
        return false;
    if (code[2] == 0xe8) /* call rel32 */
        return true;
    for (size_t i = 0; i < 6; i++) /* call *reg, *(reg), *disp8(reg), *disp32(reg or rip) */
        if (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2)
            return true;
    return false;
#else
    uint32_t code;
    return address % 4 == 0 &&
           hf_maps_read((const void *)(address - sizeof code), &code, sizeof code) &&
           (code >> 26 == 0x25 || (code & 0xfffffc1f) == 0xd63f0000); /* bl, blr */
#endif
}

/*
 * Whether the call before an address can have left its object: through a PLT entry, a GOT slot or a
 * pointer. abort() leaves parts of its stack frame uninitialised, so return addresses of finished
 * calls remain there. The caller of abort() called into another object; most of the stale calls did
 * not.
 */
static bool is_after_call_out(uintptr_t address)
{
#if defined(__x86_64__)
    static const unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    unsigned char call[5], entry[7];
    int32_t distance;
    if (!hf_maps_read((const void *)(address - sizeof call), call, sizeof call) || call[0] != 0xe8)
        return true;
    memcpy(&distance, call + 1, sizeof distance);
    const void *target = (const void *)(address + (uintptr_t)(intptr_t)distance);
    if (hf_dynlink_find_fast(target) != hf_dynlink_find_fast((const void *)address) ||
        !hf_maps_read(target, entry, sizeof entry))
        return true;
    const unsigned char *jump = entry;
    if (memcmp(jump, landing, sizeof landing) == 0)
        jump += sizeof landing;
    if (*jump == 0xf2) /* bnd */
        jump++;
    return jump[0] == 0xff && jump[1] == 0x25; /* jmp *disp32(%rip) */
#else
    (void)address;
    return true;
#endif
}

/* Considers one address. Returns true when the search is complete. */
static bool take(struct hf_doctor_place *out, uintptr_t code)
{
    const struct link_map *map = hf_dynlink_find_fast((const void *)code);
    const enum hf_object_role role = map != NULL ? role_of(map) : HF_ROLE_NOTHING;
    if (role != HF_ROLE_ORDINARY || map == out->object)
        return false;
    if (out->object == NULL) {
        out->object = map;
        out->code = code;
        return false;
    }
    out->caller = map;
    return true;
}

struct hf_doctor_crash hf_doctor_crash_of(int signal_number, const void *context)
{
    const ucontext_t *thread = context;
#if defined(__x86_64__)
    return (struct hf_doctor_crash){(uintptr_t)thread->uc_mcontext.gregs[REG_RIP],
                                    (uintptr_t)thread->uc_mcontext.gregs[REG_RSP],
                                    signal_number == SIGABRT};
#else
    return (struct hf_doctor_crash){thread->uc_mcontext.pc, thread->uc_mcontext.sp,
                                    signal_number == SIGABRT};
#endif
}

void hf_doctor_search_place(const struct hf_doctor_crash *crash, struct hf_doctor_place *out)
{
    enum { WORDS = 512, WINDOWS = 16 };
    uintptr_t words[WORDS], at = crash->stack & -sizeof words[0];
    memset(out, 0, sizeof *out);
    bool over = take(out, crash->code);
    for (size_t window = 0; window < WINDOWS && !over; window++) {
        size_t count = WORDS;
        while (count > 0 && !hf_maps_read((const void *)at, words, count * sizeof words[0]))
            count /= 2; /* the end of the stack */
        for (size_t i = 0; i < count && !over; i++)
            over = hf_dynlink_find_fast((const void *)words[i]) != NULL &&
                   is_after_call(words[i]) &&
                   (!crash->aborted || out->object != NULL || is_after_call_out(words[i])) &&
                   take(out, words[i]);
        if (count < WORDS)
            break;
        at += sizeof words;
    }
}

void hf_doctor_find_place(const struct hf_doctor_crash *crash, struct hf_doctor_place *out)
{
    memset(out, 0, sizeof *out);
    if (!has_spoken())
        hf_doctor_search_place(crash, out);
}
