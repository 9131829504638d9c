/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopt_core.h. Owns nothing.
 */
#include "satellites/adopt/adopt_core.h"

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

void *hf_malloc(size_t size)
{
    return hf_core()->malloc(size);
}

void hf_free(void *ptr)
{
    hf_core()->free(ptr);
}

char *hf_strdup(const char *text)
{
    return hf_core()->strdup(text);
}

/* libc's own entry leads to routing's hooks, which adopt. */
void *dlopen(const char *file, int mode)
{
    return hf_core()->dlopen(file, mode);
}

void hf_heap_start(void)
{
    hf_core()->heap_start();
}

bool hf_options_adopt(const struct hf_options *options, const char *path)
{
    return hf_core()->options_adopt(options, path);
}

bool hf_program_serves(void)
{
    return hf_core()->program_serves();
}

int hf_loader_lock_run(void (*run)(void *context), void *context)
{
    return hf_core()->loader_lock_run(run, context);
}

void hf_route_new_objects(void)
{
    hf_core()->route_new_objects();
}

const struct hf_adopted_note *hf_adopted_loaded(const struct link_map *map)
{
    return hf_core()->adopted_loaded(map);
}

bool hf_adopted_copy_of(const char *file, char copy[PATH_MAX])
{
    return hf_core()->adopted_copy_of(file, copy);
}

bool hf_finding_is_loaded(const struct link_map *map, struct hf_elf *elf)
{
    return hf_core()->finding_is_loaded(map, elf);
}

bool hf_guards_add(const struct link_map *map, const void *start, const void *end)
{
    return hf_core()->guards_add(map, start, end);
}

void hf_guards_done(const struct link_map *map)
{
    hf_core()->guards_done(map);
}

bool hf_guards_has(const struct link_map *map)
{
    return hf_core()->guards_has(map);
}
