/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What adopting an object would do; see inspect.h. Owns nothing; any thread, each with an
 * inspection of its own.
 */
#include "loader/inspect/inspect.h"
#include "loader/inspect/inspect_parts.h"
#include "satellites/adopt/hidden/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Makes the plan. Result as hf_plan_make(), and `why` for whatever fails. */
static int plan(struct hf_plan *plan, struct hf_elf *elf, struct hf_elf *debug)
{
    struct hf_image image;
    struct hf_functions functions = {0};
    int error = hf_image_open(&image, elf);
    if (error == 0)
        error = hf_functions_open(&functions, &image, debug);
    if (error == 0)
        error = hf_plan_make(plan, &image, &functions);
    else
        snprintf(plan->why, sizeof plan->why, "%s", elf->why != NULL ? elf->why : strerror(-error));
    /* Names belong to the files, and only their number is wanted. */
    hf_functions_close(&functions);
    hf_image_close(&image);
    return error;
}

int hf_inspection_look_at_adoption(struct hf_inspection *inspection, struct hf_elf *elf,
                                   const char *path)
{
    const size_t capacity = sizeof inspection->findings / sizeof inspection->findings[0];
    struct hf_plan made = {0};
    struct hf_elf debug;
    char text[sizeof made.why + 128], buffer[PATH_MAX];
    if (inspection->allocators_count == 0 || inspection->kind != HF_KIND_SHARED_OBJECT)
        return 0;
    if (inspection->findings_count == capacity)
        return -ENOMEM;
    const bool has_debug =
        hf_elf_is_stripped(elf) && hf_elf_find_debug(&debug, elf, path, buffer, sizeof buffer) == 0;
    const int error = plan(&made, elf, has_debug ? &debug : NULL);
    const bool release_only = error == 0 && made.release_only;
    if (release_only)
        snprintf(text, sizeof text,
                 "adopting it guards %zu of its allocator's functions and replaces none: %s",
                 made.count, made.why);
    else if (error == 0)
        snprintf(text, sizeof text,
                 "adopting it leads %zu of its allocator's functions to the heap", made.count);
    else if (error == -ENOENT)
        snprintf(text, sizeof text,
                 "it cannot be adopted: the functions of its allocator have no names");
    else
        snprintf(text, sizeof text, "it cannot be adopted: %s",
                 made.why[0] != '\0' ? made.why : strerror(-error));
    hf_plan_close(&made);
    if (has_debug)
        hf_elf_close(&debug);
    const char *message = hf_inspection_copy(inspection, text);
    if (message == NULL)
        return -ENOMEM;
    inspection->findings[inspection->findings_count++] = (struct hf_inspection_finding){
        .rule = release_only ? HF_RULE_RELEASE_ONLY
                : error == 0 ? HF_RULE_ADOPTABLE
                             : HF_RULE_NOT_ADOPTABLE,
        .message = message,
    };
    return 0;
}
