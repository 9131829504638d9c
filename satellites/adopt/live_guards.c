/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_guards.h.
 *
 * How code changes that threads are running. A function's first two bytes become a short jump to
 * five bytes of padding near it, and those a jump to the guard. Before, the two bytes were a part
 * of one instruction, or all of it, so no thread stands between them; they lie in one aligned word,
 * so a processor fetches both or neither; nothing jumps behind them. Nobody runs padding.
 *
 * Pages of code are never writable. A copy of the page is made elsewhere, changed, made executable
 * and moved into the place of the old one in one system call. A thread that comes upon the page
 * meanwhile waits in its page fault. membarrier(2) then has each processor fetch anew.
 *
 * Each guard is right alone: if the system fails between two pages, some functions have a guard and
 * the others are as they were.
 */
#include "satellites/adopt/live_guards.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fork_lock.h"
#include "loader/adopt/guard_question.h"
#include "loader/foreign/finding.h"
#include "loader/interpose/loader_lock.h"
#include "satellites/adopt/adopt_core.h"
#include "satellites/adopt/hidden/code.h"
#include "satellites/adopt/hidden/plan.h"
#include "satellites/adopt/hidden/release_only.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One function. */
struct site {
    const struct hf_redirection *redirection;
    const unsigned char *bytes; /* in the file */
    uint64_t padding;           /* address of five bytes of it */
    size_t size;                /* of its first instruction */
};

struct guarding {
    struct hf_adoption *adoption;
    const struct link_map *map;
    struct hf_image image;
    struct hf_functions functions;
    struct hf_plan plan;
    struct site *sites;
    unsigned char *code; /* the guards, and behind them a page of slots */
    size_t code_size, slots_size, page;
    int result;
};

#define REMEDY "; load it through homefree before anything else does"

/* ---- choosing ------------------------------------------------------------------------------- */

static bool is_taken(const struct guarding *guarding, size_t sites, uint64_t address)
{
    for (size_t i = 0; i < sites; i++)
        if (address - guarding->sites[i].padding + HF_GUARD_LONG - 1 < 2 * HF_GUARD_LONG - 1)
            return true;
    return false;
}

/* Finds padding for a function's long jump, within reach of a short one. */
static uint64_t find_padding(const struct guarding *guarding, size_t sites, uint64_t address)
{
    enum { REACH = 127 - HF_GUARD_LONG };
    const struct hf_functions *functions = &guarding->functions;
    for (uint64_t from = address > REACH ? address - REACH : 0; from < address + REACH;) {
        const struct hf_function *gap = hf_function_at(functions, from);
        uint64_t available;
        if (gap == NULL) {
            from++;
            continue;
        }
        const uint64_t end = gap->address + gap->size;
        const unsigned char *bytes = hf_image_at(&guarding->image, gap->address, &available);
        if (gap->gap && bytes != NULL && gap->size <= available &&
            guarding->image.code->is_padding(bytes, gap->size))
            for (uint64_t at = from; at + HF_GUARD_LONG <= end && at < address + REACH; at++)
                if (!is_taken(guarding, sites, at))
                    return at;
        from = end;
    }
    return 0;
}

/* Whether memory holds what the file does, so nobody else has changed this code. */
static bool is_unchanged(const struct guarding *guarding, uint64_t address, size_t size)
{
    uint64_t available;
    const unsigned char *bytes = hf_image_at(&guarding->image, address, &available);
    return bytes != NULL && available >= size &&
           memcmp(bytes, (const void *)(guarding->map->l_addr + address), size) == 0;
}

static int choose_sites(struct guarding *guarding)
{
    const struct hf_plan *plan = &guarding->plan;
    guarding->sites = calloc(plan->count, sizeof *guarding->sites);
    if (guarding->sites == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < plan->count; i++) {
        const struct hf_redirection *redirection = &plan->redirections[i];
        const uint64_t address = redirection->address;
        const struct hf_function *function = hf_function_at(&guarding->functions, address);
        struct site *site = &guarding->sites[i];
        uint64_t available;
        site->redirection = redirection;
        site->bytes = hf_image_at(&guarding->image, address, &available);
        if (site->bytes != NULL && function != NULL && function->size <= available)
            site->size = hf_guard_first(site->bytes, function->size, address);
        site->padding = site->size != 0 ? find_padding(guarding, i, address) : 0;
        if (site->padding == 0)
            return HF_ADOPT_FAIL(
                guarding->adoption->why, -EBUSY,
                "it is loaded already, and its %.120s cannot be changed while threads may "
                "be running it" REMEDY,
                redirection->name);
        if (!is_unchanged(guarding, address, site->size) ||
            !is_unchanged(guarding, site->padding, HF_GUARD_LONG))
            return HF_ADOPT_FAIL(guarding->adoption->why, -EBUSY,
                                 "it is loaded already, and something has changed its code" REMEDY);
    }
    return 0;
}

/* ---- guards --------------------------------------------------------------------------------- */

/* Maps memory within reach of the object, below it. */
static void *map_near(uintptr_t object, size_t size)
{
    const uintptr_t step = (uintptr_t)1 << 20, most = (uintptr_t)1 << 30;
    for (uintptr_t below = step; below < most && below < object; below += step) {
        void *wanted = (void *)((object - below) & ~(step - 1));
        void *at = mmap(wanted, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == wanted)
            return at;
        if (at != MAP_FAILED)
            munmap(at, size); /* a kernel that takes the address for a hint */
    }
    return NULL;
}

static int write_guards(struct guarding *guarding)
{
    const struct hf_plan *plan = &guarding->plan;
    const uint64_t base = guarding->map->l_addr;
    guarding->code_size =
        (plan->count * HF_GUARD_MAX + guarding->page - 1) / guarding->page * guarding->page;
    guarding->slots_size =
        ((plan->count + 1) * sizeof(void *) + guarding->page - 1) / guarding->page * guarding->page;
    guarding->code = map_near(base, guarding->code_size + guarding->slots_size);
    if (guarding->code == NULL)
        return HF_ADOPT_FAIL(guarding->adoption->why, -ENOMEM,
                             "there is no room near its code for guards");
    void **slots = (void **)(void *)(guarding->code + guarding->code_size);
    const struct link_map *own = hf_dynlink_find((const void *)hf_core()->adopted_elsewhere);
    struct hf_object object;
    if (own == NULL || !hf_dynlink_open(own, &object))
        return -ENOTSUP;
    slots[0] = (void *)(uintptr_t)hf_core()->adopted_elsewhere;
    for (size_t i = 0; i < plan->count; i++) {
        const struct site *site = &guarding->sites[i];
        unsigned char *guard = guarding->code + i * HF_GUARD_MAX;
        slots[i + 1] = hf_object_address(&object, site->redirection->function);
        /* Addresses in the object, so that all distances are as in its file. */
        if (slots[i + 1] == NULL ||
            hf_guard_write(site->bytes, site->size, site->redirection->address,
                           site->redirection->guard, (uint64_t)(uintptr_t)guard - base,
                           (uint64_t)(uintptr_t)slots - base,
                           (uint64_t)(uintptr_t)(slots + i + 1) - base, guard) == 0)
            return HF_ADOPT_FAIL(guarding->adoption->why, -ENOTSUP,
                                 "a guard cannot be written for its %.120s",
                                 site->redirection->name);
    }
    if (mprotect(slots, guarding->slots_size, PROT_READ) != 0 ||
        mprotect(guarding->code, guarding->code_size, PROT_READ | PROT_EXEC) != 0)
        return HF_ADOPT_FAIL(
            guarding->adoption->why, -EPERM,
            "it is loaded already, and the system forbids this process new code (%s)" REMEDY,
            strerror(errno));
    return 0;
}

/* ---- changing code -------------------------------------------------------------------------- */

/* Writes the bytes that lie in one page to its copy. */
static void write_part(unsigned char *page, uint64_t start, size_t page_size, uint64_t address,
                       const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (address + i - start < page_size)
            page[address + i - start] = bytes[i];
}

/* Replaces one page by a changed copy. The padding of a function may lie in another page than its
 * beginning, so all long jumps are written first, and then the short ones. */
static int replace_page(struct guarding *guarding, uint64_t start, bool beginnings)
{
    void *old = (void *)(guarding->map->l_addr + start);
    unsigned char *copy =
        mmap(NULL, guarding->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -errno;
    memcpy(copy, old, guarding->page);
    for (size_t i = 0; i < guarding->plan.count; i++) {
        const struct site *site = &guarding->sites[i];
        const uint64_t address = site->redirection->address;
        const uint64_t at =
            (uint64_t)(uintptr_t)(guarding->code + i * HF_GUARD_MAX) - guarding->map->l_addr;
        unsigned char first[HF_GUARD_SHORT], second[HF_GUARD_LONG];
        if (!hf_guard_enter_by(address, site->padding, at, first, second)) {
            munmap(copy, guarding->page);
            return -ENOTSUP;
        }
        if (beginnings)
            write_part(copy, start, guarding->page, address, first, sizeof first);
        else
            write_part(copy, start, guarding->page, site->padding, second, sizeof second);
    }
    int error = 0;
    if (mprotect(copy, guarding->page, PROT_READ | PROT_EXEC) != 0 ||
        mremap(copy, guarding->page, guarding->page, MREMAP_MAYMOVE | MREMAP_FIXED, old) != old) {
        error = -errno;
        munmap(copy, guarding->page);
    }
    return error;
}

static bool touches(const struct guarding *guarding, uint64_t start, uint64_t address, size_t size)
{
    return address < start + guarding->page && address + size > start;
}

static int replace_pages(struct guarding *guarding, bool beginnings)
{
    int error = 0;
    uint64_t first = UINT64_MAX, end = 0;
    const size_t size = beginnings ? HF_GUARD_SHORT : HF_GUARD_LONG;
    for (size_t i = 0; i < guarding->plan.count; i++) {
        const struct site *site = &guarding->sites[i];
        const uint64_t at = beginnings ? site->redirection->address : site->padding;
        first = at < first ? at : first;
        end = at + size > end ? at + size : end;
    }
    for (uint64_t start = first & -(uint64_t)guarding->page; error == 0 && start < end;
         start += guarding->page) {
        bool any = false;
        for (size_t i = 0; !any && i < guarding->plan.count; i++) {
            const struct site *site = &guarding->sites[i];
            any = touches(guarding, start, beginnings ? site->redirection->address : site->padding,
                          size);
        }
        if (any)
            error = replace_page(guarding, start, beginnings);
    }
    return error;
}

static void synchronise(void)
{
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

/* Under the loader's lock. */
static void change(void *context)
{
    struct guarding *guarding = context;
    if (hf_guards_has(guarding->map))
        return;
    guarding->result = choose_sites(guarding);
    if (guarding->result == 0 &&
        dlopen(hf_dynlink_name(guarding->map), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL)
        guarding->result = -ENOTSUP;
    if (guarding->result == 0)
        guarding->result = write_guards(guarding);
    if (guarding->result == 0 &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) != 0)
        guarding->result =
            HF_ADOPT_FAIL(guarding->adoption->why, -EPERM,
                          "it is loaded already, and membarrier(2) is forbidden or missing" REMEDY);
    if (guarding->result == 0 &&
        !hf_guards_add(guarding->map, guarding->code, guarding->code + guarding->code_size))
        guarding->result =
            HF_ADOPT_FAIL(guarding->adoption->why, -E2BIG, "too many loaded objects have guards");
    if (guarding->result != 0) {
        if (guarding->code != NULL)
            munmap(guarding->code, guarding->code_size + guarding->slots_size);
        return;
    }
    guarding->result = replace_pages(guarding, false);
    synchronise();
    if (guarding->result == 0)
        guarding->result = replace_pages(guarding, true);
    synchronise();
    if (guarding->result != 0)
        (void)HF_ADOPT_FAIL(guarding->adoption->why, guarding->result,
                            "it is loaded already, and its code cannot be changed (%s)" REMEDY,
                            strerror(-guarding->result));
}

/* ---- refusals ------------------------------------------------------------------------------- */

/* So that the search is not repeated at each dlopen() of an object. If there are more, it is. */
static struct {
    const struct link_map *map;
    uint64_t key;
    int error;
    char why[HF_ADOPTED_WHY_MAX];
} refused[16];
static size_t refused_count;
static pthread_mutex_t HF_FORK_LOCK refused_lock = PTHREAD_MUTEX_INITIALIZER;

static int was_refused(struct hf_adoption *adoption, const struct link_map *map)
{
    int found = 0;
    pthread_mutex_lock(&refused_lock);
    for (size_t i = 0; i < refused_count && found == 0; i++)
        if (refused[i].map == map && refused[i].key == adoption->key[0]) {
            memcpy(adoption->why, refused[i].why, sizeof adoption->why);
            found = refused[i].error;
        }
    pthread_mutex_unlock(&refused_lock);
    return found;
}

static void note_refused(const struct hf_adoption *adoption, const struct link_map *map, int error)
{
    pthread_mutex_lock(&refused_lock);
    if (refused_count < sizeof refused / sizeof refused[0]) {
        refused[refused_count].map = map;
        refused[refused_count].key = adoption->key[0];
        refused[refused_count].error = error;
        memcpy(refused[refused_count++].why, adoption->why, sizeof adoption->why);
    }
    pthread_mutex_unlock(&refused_lock);
}

/* ---- one object ----------------------------------------------------------------------------- */

static int guard(struct guarding *guarding)
{
    struct hf_adoption *adoption = guarding->adoption;
    int error = hf_image_open(&guarding->image, &adoption->elf);
    if (error == 0)
        error = hf_functions_open(&guarding->functions, &guarding->image,
                                  adoption->has_debug ? &adoption->debug : NULL);
    if (error == 0)
        error = hf_plan_make_release_only(&guarding->plan, &guarding->image, &guarding->functions);
    if (error == -ENOTSUP || error == -ENOENT)
        error = HF_ADOPT_FAIL(
            guarding->adoption->why, -EBUSY,
            "it is loaded already, with an allocator of its own that cannot be guarded now" REMEDY);
    if (error != 0)
        return error;
    error = hf_loader_lock_run(change, guarding);
    return error != 0 ? error : guarding->result;
}

int hf_live_guard(struct hf_adoption *adoption, const struct link_map *map)
{
    if (hf_guards_has(map))
        return 0;
    int error = was_refused(adoption, map);
    if (error != 0)
        return error;
    struct guarding guarding = {
        .adoption = adoption, .map = map, .page = (size_t)sysconf(_SC_PAGESIZE)};
    if (!hf_finding_is_loaded(map, &adoption->elf))
        error = HF_ADOPT_FAIL(guarding.adoption->why, -EBUSY,
                              "its file has changed since it was loaded");
    else
        error = guard(&guarding);
    if (error == 0)
        hf_guards_done(map);
    else if (error != -ENOMEM)
        note_refused(adoption, map, error);
    free(guarding.sites);
    hf_plan_close(&guarding.plan);
    hf_functions_close(&guarding.functions);
    hf_image_close(&guarding.image);
    return error;
}
