/* SPDX-License-Identifier: BSD-2-Clause */
/* See attached.h. */
#include "loader/diagnose/attached.h"

#include "alloc/base/dynlink.h"

#include <link.h>

static const char nobody;
static __thread const void *nothing __attribute__((tls_model("initial-exec")));

__thread const void *hf_attached = &nobody;
_Atomic(intptr_t) hf_attached_word;
union hf_attached_table hf_attached_table HF_SEALED;

/* ---- since 3.12 ---- */

/* CPython's thread-local data lies between these distances, which are equal if each thread has it
 * somewhere else. */
static intptr_t first, end;
static atomic_bool has_no_word;

static intptr_t distance_of_nothing(void)
{
    const void *place = &nothing;
    /* GCC 14 would compare with the offset in the instruction that loads it, which Debian 13's
     * assembler refuses. */
    __asm__("" : "+r"(place));
    return (const char *)place - hf_thread_pointer();
}

/* Whether data at that distance belongs to the block that each thread has beside its thread
 * pointer. What the dynamic linker allocates for a library that came later lies elsewhere, and in
 * another thread nothing may be mapped at the same distance. */
static bool is_static(intptr_t start, intptr_t behind)
{
    const intptr_t limit = 0x10000;
#if defined(__x86_64__)
    return start > -limit && behind <= 0; /* TLS variant II of the ELF ABI: below it */
#else
    return start >= 0 && behind < limit; /* variant I: above it */
#endif
}

static int find_thread_data(struct dl_phdr_info *info, size_t size, void *map)
{
    (void)size;
    if (info->dlpi_addr != ((const struct link_map *)map)->l_addr || info->dlpi_tls_data == NULL)
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            const intptr_t start = (const char *)info->dlpi_tls_data - hf_thread_pointer();
            const intptr_t behind = start + (intptr_t)info->dlpi_phdr[i].p_memsz;
            if (is_static(start, behind)) {
                first = start;
                end = behind;
            }
        }
    return 1;
}

/* Finds the variable, which is the only one that holds the current state, or sees that it is not
 * where it was found in another thread. */
static void find_word(const void *current)
{
    intptr_t found = 0;
    const intptr_t known = atomic_load(&hf_attached_word), unknown = distance_of_nothing();
    for (intptr_t at = first; at + (intptr_t)sizeof current <= end; at += (intptr_t)sizeof current)
        if (hf_attached_read(at) == current)
            found = found == 0 ? at : 1;
    if (found == 0 || found == 1 || (known != unknown && known != found)) {
        atomic_store(&has_no_word, true);
        atomic_store(&hf_attached_word, unknown);
    } else if (!atomic_load(&has_no_word)) {
        atomic_store(&hf_attached_word, found);
    }
}

/* ---- before 3.12 ---- */

/* The variable that a function of CPython returns, which is all that it does; NULL if that is
 * unknown. Read from its code, because no symbol names the variable. */
static const void *const *find_fixed(const struct hf_cpython *cpython)
{
#if defined(__x86_64__)
    static const unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    static const unsigned char load[] = {0x48, 0x8b, 0x05};          /* mov  …(%rip), %rax */
    static const unsigned char follow[] = {0x48, 0x8b, 0x80};        /* mov  …(%rax), %rax */
    const unsigned char *code = (const unsigned char *)cpython->current_thread;
    struct hf_object object;
    int32_t offset;
    if (memcmp(code, landing, sizeof landing) == 0)
        code += sizeof landing;
    if (memcmp(code, load, sizeof load) != 0)
        return NULL;
    memcpy(&offset, code + sizeof load, sizeof offset);
    code += sizeof load + sizeof offset;
    const void *place = code + offset;
    if (memcmp(code, follow, sizeof follow) == 0) {
        memcpy(&offset, code + sizeof follow, sizeof offset);
        code += sizeof follow + sizeof offset;
        place = *(const char *const *)place + offset;
    }
    if (*code != 0xc3 || (uintptr_t)place % sizeof(void *) != 0 || /* ret */
        !hf_dynlink_open(cpython->map, &object))
        return NULL;
    hf_object_segments(&object);
    return hf_object_writable(&object, (uintptr_t)place) ? (const void *const *)place : NULL;
#else
    (void)cpython;
    return NULL;
#endif
}

/* ---- both ---- */

/*
 * Since 3.12 the current state is the thread's own. Before, it is whoever holds the GIL.
 * PyGILState_Check() compares with the first state of this thread, which may have others, and says
 * yes to everybody once there have been subinterpreters, whose states may be used by any thread.
 */
bool hf_attached_find(const struct hf_cpython *cpython)
{
    const void *current = cpython->current_thread();
    if (current != NULL && current == hf_attached)
        return true;
    if (current == NULL || (cpython->version < 0x30c && cpython->gil_check != NULL &&
                            cpython->gil_check() == 0 && !hf_cpython_attached(cpython)))
        return cpython->is_initialized() == 0; /* it starts or ends, and does as it likes */
    if (cpython->version >= 0x30c)
        find_word(current);
    hf_attached = current;
    return true;
}

bool hf_attached_start(const struct hf_cpython *cpython)
{
    struct hf_seal seal;
    atomic_store(&hf_attached_word, distance_of_nothing());
    if (cpython->version >= 0x30c) {
        (void)dl_iterate_phdr(find_thread_data, (void *)(uintptr_t)cpython->map);
        return false;
    }
    const void *const *fixed = find_fixed(cpython);
    if (fixed == NULL || !hf_seal_open(&seal))
        return false;
    hf_attached_table.fixed = fixed;
    hf_seal_close(&seal);
    return true;
}
