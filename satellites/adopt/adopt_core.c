/*
 * See adopt_core.h. The pointer is sealed; it is written when the satellite begins, before anybody
 * has one of its functions.
 */
#include "satellites/adopt/adopt_core.h"

#include "alloc/base/seal.h"
#include "alloc/heap/front_end.h"
#include "loader/adopt/guard_question.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/finding.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/satellites/adopt_api.h"

#include <dlfcn.h>
#include <homefree/alloc.h>
#include <homefree/libc.h>

static union {
    const struct hf_adopt_core *it;
    char pages[HF_SEAL_SIZE(void *)];
} core HF_SEALED;

void hf_core_begin(const struct hf_adopt_core *given)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    core.it = given;
    hf_seal_close(&seal);
}

const struct hf_adopt_core *hf_core(void)
{
    return core.it;
}

void *hf_malloc(size_t size)
{
    return core.it->malloc(size);
}

void hf_free(void *ptr)
{
    core.it->free(ptr);
}

char *hf_strdup(const char *text)
{
    return core.it->strdup(text);
}

/* libc's own entry leads to routing's hooks, which adopt. */
void *dlopen(const char *file, int mode)
{
    return core.it->dlopen(file, mode);
}

void hf_heap_start(void)
{
    core.it->heap_start();
}

bool hf_options_adopt(const struct hf_options *options, const char *path)
{
    return core.it->options_adopt(options, path);
}

bool hf_program_serves(void)
{
    return core.it->program_serves();
}

int hf_loader_lock_run(void (*run)(void *context), void *context)
{
    return core.it->loader_lock_run(run, context);
}

void hf_route_new_objects(void)
{
    core.it->route_new_objects();
}

const struct hf_adopted_note *hf_adopted_loaded(const struct link_map *map)
{
    return core.it->adopted_loaded(map);
}

bool hf_adopted_copy_of(const char *file, char copy[PATH_MAX])
{
    return core.it->adopted_copy_of(file, copy);
}

bool hf_finding_is_loaded(const struct link_map *map, struct hf_elf *elf)
{
    return core.it->finding_is_loaded(map, elf);
}

bool hf_guards_add(const struct link_map *map, const void *start, const void *end)
{
    return core.it->guards_add(map, start, end);
}

void hf_guards_done(const struct link_map *map)
{
    core.it->guards_done(map);
}

bool hf_guards_has(const struct link_map *map)
{
    return core.it->guards_has(map);
}
