/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dynamic linker's lists: the objects of every namespace, and whether they are relocated. Owns
 * nothing. See dynlink.h for what may be called when.
 */
#include "alloc/base/dynlink.h"

#include <string.h>
#include <sys/auxv.h>

/* <link.h>'s r_debug_extended, which older headers lack. */
struct hf_debug {
    struct r_debug base;
    struct hf_debug *next;
};

/*
 * Stores the program's load bias; false if it cannot be found. PT_PHDR gives it. A program without
 * an interpreter (static PIE) has no PT_PHDR: there the bias is the kernel's AT_ENTRY less the
 * entry in the ELF header, which starts the page that holds the program headers.
 */
static bool bias_of_program(const ElfW(Phdr) *header, size_t count, uintptr_t *bias)
{
    for (size_t i = 0; i < count; i++)
        if (header[i].p_type == PT_PHDR) {
            *bias = (uintptr_t)header - header[i].p_vaddr;
            return true;
        }
    const uintptr_t entry = getauxval(AT_ENTRY), page = getauxval(AT_PAGESZ);
    const ElfW(Ehdr) *file = (const void *)((uintptr_t)header & -page);
    const uintptr_t offset = (uintptr_t)header - (uintptr_t)file;
    if (entry == 0 || page == 0 || offset < sizeof *file ||
        memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phoff != offset ||
        file->e_phnum != count)
        return false;
    *bias = entry - file->e_entry;
    return true;
}

static const struct hf_debug *debug_of_program(void)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR);
    size_t count = getauxval(AT_PHNUM);
    uintptr_t bias;
    const ElfW(Dyn) *dynamic = NULL;
    if (header == NULL || !bias_of_program(header, count, &bias))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (header[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(bias + header[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_DEBUG)
            return (const void *)dynamic->d_un.d_ptr;
    return NULL;
}

static const struct hf_debug *debug_of_process(void)
{
    const struct hf_debug *debug = debug_of_program();
    return debug != NULL ? debug : (const void *)&_r_debug;
}

bool hf_dynlink_is_settled(void)
{
    return debug_of_process()->base.r_state == RT_CONSISTENT;
}

static const char own_address; /* any address in this object */

size_t hf_dynlink_namespaces(const struct link_map *first[HF_NAMESPACES_MAX])
{
    const struct hf_debug *debug = debug_of_process();
    size_t count = 0;
    while (debug != NULL && count < HF_NAMESPACES_MAX) {
        if (debug->base.r_map != NULL)
            first[count++] = debug->base.r_map;
        debug = debug->base.r_version >= 2 ? debug->next : NULL;
    }
    /* A static program at a fixed address has no dynamic section and so no DT_DEBUG: take the list
     * that holds this object. */
    const struct link_map *map = count == 0 ? hf_dynlink_find_fast(&own_address) : NULL;
    while (map != NULL && map->l_prev != NULL)
        map = map->l_prev;
    if (map != NULL)
        first[count++] = map;
    return count;
}

const struct link_map *hf_dynlink_first(void)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    return hf_dynlink_namespaces(first) != 0 ? first[0] : NULL;
}
