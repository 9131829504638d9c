/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See doctor_live.h.
 */
#include "loader/command/doctor/doctor_live.h"

#include "loader/command/doctor/live_facts.h"
#include "loader/command/doctor/live_routing.h"
#include "loader/command/live/live_object.h"
#include "loader/inspect/inspect.h"
#include "loader/record/process_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS_MOST = 1 << 18, VARIABLE_MOST = 1 << 16 };

struct collecting {
    const struct hf_live_process *process;
    struct hf_live_objects objects;
    struct hf_live_facts *facts; /* for each object */
    struct hf_live_routing routing;
    size_t slots_left;
    FILE *out;
};

/* ---- writing -------------------------------------------------------------------------------- */

/* A field, after a tab; process_record.h says how its bytes are written. */
static void field(FILE *out, const char *text)
{
    if (text == NULL || *text == '\0' || strcmp(text, "-") == 0) {
        fputs(text != NULL && *text != '\0' ? "\t%2D" : "\t-", out);
        return;
    }
    fputc('\t', out);
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (byte > ' ' && byte < 0x7f && byte != '%')
            fputc(byte, out);
        else
            fprintf(out, "%%%02x", byte);
    }
}

/* A reader refuses larger numbers than memory has; a hostile process may show them. */
static void number(FILE *out, uint64_t value)
{
    fprintf(out, "\t%" PRIu64, value < INT64_MAX ? value : INT64_MAX);
}

/* ---- where slots lead ----------------------------------------------------------------------- */

/* The first object of a namespace that defines a function, as the dynamic linker binds it; `count`
 * if none does, or if that is not certain. */
static size_t definer(const struct collecting *collecting, size_t namespace, size_t function)
{
    const size_t count = collecting->objects.count;
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        const struct hf_live_facts *facts = &collecting->facts[i];
        if (collecting->objects.items[i].namespace != namespace || !facts->defines[function] ||
            facts->role == HF_LIVE_LINKER)
            continue;
        if (collecting->objects.ordered)
            return i;
        if (found != count)
            return count;
        found = i;
    }
    return found;
}

struct led {
    const char *state;
    size_t target; /* `count` of the objects: unknown */
    const char *reason;
};

/* The object that a value means. A slot that has not been called yet leads into its own object, and
 * an address in the program may stand for the function: both mean the first definition. */
static size_t target_of(const struct collecting *collecting, size_t index,
                        const struct hf_live_slot *slot, uint64_t value)
{
    const struct hf_live_objects *objects = &collecting->objects;
    const size_t target = hf_live_object_at(objects, value);
    if (target == objects->count)
        return target;
    const struct hf_live_facts *facts = &collecting->facts[target];
    const uint64_t stand_in = facts->stands_for[slot->function];
    const bool unresolved = target == index && slot->kind == 0 && facts->known;
    if (!facts->defines[slot->function] &&
        (unresolved || (stand_in != 0 && objects->items[target].base + stand_in == value)))
        return definer(collecting, objects->items[index].namespace, slot->function);
    return target;
}

/* False: the slot says nothing about where calls go. */
static bool follow(const struct collecting *collecting, size_t index,
                   const struct hf_live_slot *slot, struct led *out)
{
    const struct hf_live_object *object = &collecting->objects.items[index];
    const enum hf_live_function_kind kind = hf_live_function_kind(slot->function);
    const size_t count = collecting->objects.count;
    uint64_t value, original;
    *out = (struct led){.state = "plain", .target = count};
    if (collecting->process->memory < 0) {
        out->target = definer(collecting, object->namespace, slot->function);
        return slot->kind != 2;
    }
    if (!hf_live_read(collecting->process, object->base + slot->address, &value, sizeof value) ||
        value == 0)
        return false;
    if (hf_live_routing_original(&collecting->routing, value, &original)) {
        out->state = "routed";
        out->target = hf_live_object_at(&collecting->objects, original);
        return true;
    }
    out->target = target_of(collecting, index, slot, value);
    const bool known = out->target < count && collecting->facts[out->target].known;
    const bool defined = known && collecting->facts[out->target].defines[slot->function] &&
                         (out->target != hf_live_object_at(&collecting->objects, value) ||
                          collecting->objects.items[out->target].base +
                                  collecting->facts[out->target].defined_at[slot->function] ==
                              value);
    const bool routes = collecting->routing.on && collecting->facts[index].role == HF_LIVE_ORDINARY;
    if (slot->kind == 2) { /* a variable; the program may have changed it */
        const bool changed = known && !defined && out->target != index;
        if (!changed || !routes || kind != HF_LIVE_ROUTED)
            return defined;
        out->state = "refused";
        out->reason = "the variable was given another function";
        return true;
    }
    const enum hf_live_role role =
        out->target < count ? collecting->facts[out->target].role : HF_LIVE_ORDINARY;
    if (role == HF_LIVE_HOMEFREE && kind != HF_LIVE_ALLOCATING)
        out->state = "routed"; /* the heap's own function, which takes any pointer */
    if (kind == HF_LIVE_ROUTED && role == HF_LIVE_RUNTIME && routes) {
        out->state = "refused";
        out->reason = "the slot leads past homefree";
    }
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static const char *path_of(const struct hf_live_object *object)
{
    return object->mapping->path[0] != '\0' ? object->mapping->path : "(unnamed)";
}

static void write_object(const struct collecting *collecting, size_t index)
{
    static const char *const roles[] = {"ordinary", "runtime", "linker", "homefree", "satellite"};
    const struct hf_live_object *object = &collecting->objects.items[index];
    const struct hf_live_facts *facts = &collecting->facts[index];
    char flags[8];
    size_t used = 0;
    const struct {
        bool set;
        char flag;
    } all[] = {
        {facts->maps, 'm'},     {facts->static_tls, 's'}, {collecting->routing.heap == index, 'h'},
        {object->program, 'p'}, {facts->cpython, 'y'},    {facts->linked, 'l'},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].set)
            flags[used++] = all[i].flag;
    flags[used] = '\0';
    fputs("object", collecting->out);
    number(collecting->out, object->namespace);
    field(collecting->out, roles[facts->role]);
    field(collecting->out, flags);
    field(collecting->out, path_of(object));
    field(collecting->out, facts->soname);
    fputc('\n', collecting->out);
}

static bool defines(const struct hf_live_facts *facts, const char *name)
{
    for (size_t i = 0; i < hf_live_function_count(); i++)
        if (strcmp(hf_live_function_name(i), name) == 0)
            return facts->defines[i];
    return false;
}

static void write_facts(struct collecting *collecting, size_t index)
{
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv"};
    const struct hf_live_facts *facts = &collecting->facts[index];
    const char *reach = NULL;
    FILE *out = collecting->out;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (defines(facts, names[i])) {
            fputs("defines", out);
            number(out, index);
            field(out, names[i]);
            fputc('\n', out);
        }
    if (facts->role == HF_LIVE_LINKER)
        reach = "the dynamic linker frees only what it allocated";
    else if (facts->role == HF_LIVE_ORDINARY && defines(facts, "malloc") && defines(facts, "free"))
        reach = "the object is an allocator: calls inside it need no slot";
    if (reach != NULL && collecting->routing.present) {
        fputs("reach", out);
        number(out, index);
        field(out, reach);
        fputc('\n', out);
    }
    for (size_t i = 0; i < facts->slots_count && collecting->slots_left > 0; i++) {
        static const char *const kinds[] = {"call", "data", "word"};
        struct led led;
        if (!follow(collecting, index, &facts->slots[i], &led))
            continue;
        collecting->slots_left--;
        fputs("slot", out);
        number(out, index);
        field(out, hf_live_function_name(facts->slots[i].function));
        field(out, kinds[facts->slots[i].kind]);
        field(out, led.state);
        if (led.target < collecting->objects.count)
            number(out, led.target);
        else
            field(out, NULL);
        field(out, led.reason);
        fputc('\n', out);
    }
}

static void write_allocator(const struct collecting *collecting, const char *line, size_t index,
                            const char *name)
{
    fputs(line, collecting->out);
    number(collecting->out, index);
    field(collecting->out, name);
    fputc('\n', collecting->out);
}

/* The allocators in the file of an object that may contain one. */
static void write_inside(const struct collecting *collecting, size_t index)
{
    const struct hf_live_facts *facts = &collecting->facts[index];
    const struct hf_live_object *object = &collecting->objects.items[index];
    struct hf_inspection inspection;
    struct hf_live_elf file;
    if (facts->role != HF_LIVE_ORDINARY || hf_live_takes_too_long(collecting->process) ||
        !(facts->maps || defines(facts, "malloc") || defines(facts, "free")) ||
        hf_live_elf_open(collecting->process, object->mapping, &file) != 0)
        return;
    /* homefree's own extension has the table of known allocators, and therefore their names. */
    if (hf_inspect_elf(&file.elf, path_of(object), &inspection) == 0 &&
        !(inspection.homefree_linked && inspection.module != NULL &&
          strcmp(inspection.module, "_homefree") == 0)) {
        for (size_t i = 0; i < inspection.members_count; i++)
            write_allocator(collecting, "publishes", index, inspection.members[i].name);
        for (size_t i = 0; i < inspection.allocators_count; i++)
            if (!inspection.allocators[i].published)
                write_allocator(collecting, "contains", index,
                                hf_allocator_name(inspection.allocators[i].allocator));
    }
    hf_inspection_free(&inspection);
    hf_live_elf_close(&file);
}

static void write_allocators(const struct collecting *collecting)
{
    for (size_t i = 0; i < collecting->routing.allocators_count; i++) {
        const struct hf_live_allocator *allocator = &collecting->routing.allocators[i];
        fputs("foreign", collecting->out);
        number(collecting->out, allocator->object);
        field(collecting->out, allocator->name);
        number(collecting->out, allocator->bytes);
        field(collecting->out, allocator->home ? "home" : "known");
        number(collecting->out, 0); /* leaked blocks: not told from outside */
        fputc('\n', collecting->out);
    }
}

static const char *program(const struct hf_live_objects *objects)
{
    for (size_t i = 0; i < objects->count; i++)
        if (objects->items[i].program)
            return path_of(&objects->items[i]);
    return NULL;
}

/* What is missing, and why. */
static void write_unseen(const struct collecting *collecting)
{
    char text[512];
    const char *unseen = collecting->routing.why;
    if (collecting->process->memory < 0) {
        snprintf(text, sizeof text,
                 "its memory cannot be read (%s); who uses which allocator is known only where "
                 "there is no choice",
                 collecting->process->unreadable);
        unseen = text;
    } else if (collecting->objects.left_out) {
        unseen = "it has more objects than this command looks at";
    }
    if (unseen == NULL)
        return;
    fputs("unseen", collecting->out);
    field(collecting->out, unseen);
    fputc('\n', collecting->out);
}

static void write_process(const struct collecting *collecting)
{
    const struct hf_live_process *process = collecting->process;
    const struct hf_live_routing *routing = &collecting->routing;
    FILE *out = collecting->out;
    char *preload = malloc(VARIABLE_MOST);
    fprintf(out, HF_DOCTOR_FIRST "\t%d\nprocess\t%d\tlive\t0", HF_DOCTOR_VERSION,
            (int)process->pid);
    field(out, program(&collecting->objects));
    field(out, !routing->present  ? "none"
               : routing->unknown ? "unknown"
               : routing->on      ? "on"
                                  : "off");
    fputs("\npreload", out);
    field(out, preload != NULL && hf_live_variable(process, "LD_PRELOAD", preload, VARIABLE_MOST)
                   ? preload
                   : NULL);
    fputs("\nheap", out);
    number(out, routing->reserved);
    fputs("\t-\t-\t-\n", out);
    free(preload);
    write_unseen(collecting);
}

/* ---- the record ----------------------------------------------------------------------------- */

static bool read_facts(struct collecting *collecting)
{
    collecting->facts = calloc(collecting->objects.count + 1, sizeof *collecting->facts);
    for (size_t i = 0; collecting->facts != NULL && i < collecting->objects.count; i++) {
        struct hf_live_elf file;
        if (hf_live_takes_too_long(collecting->process)) {
            collecting->objects.left_out = true;
            break;
        }
        if (hf_live_elf_open(collecting->process, collecting->objects.items[i].mapping, &file) != 0)
            continue;
        const bool good = hf_live_facts_read(&file.elf, &collecting->facts[i]);
        hf_live_elf_close(&file);
        if (!good)
            return false;
    }
    return collecting->facts != NULL;
}

static void write_record(struct collecting *collecting)
{
    write_process(collecting);
    for (size_t i = 0; i < collecting->objects.count; i++)
        write_object(collecting, i);
    for (size_t i = 0; i < collecting->objects.count; i++)
        write_facts(collecting, i);
    for (size_t i = 0; i < collecting->objects.count; i++)
        write_inside(collecting, i);
    write_allocators(collecting);
}

/* The last line counts the others. */
static int finish(const char *text, size_t size)
{
    char end[64];
    size_t lines = 0, done = 0;
    const int descriptor = memfd_create("homefree-record", MFD_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    const size_t end_size = (size_t)snprintf(end, sizeof end, "end\t%zu\n", lines);
    while (done < size + end_size) {
        const ssize_t written =
            done < size ? write(descriptor, text + done, size - done)
                        : write(descriptor, end + (done - size), end_size - (done - size));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            const int error = written < 0 ? -errno : -EIO;
            close(descriptor);
            return error;
        }
        done += (size_t)written;
    }
    return descriptor;
}

static int no_objects(const struct hf_live_process *process, const char **why)
{
    struct hf_live_elf file;
    *why = hf_live_runs(process) ? "it runs no program that this command can read"
                                 : "it ended while it was looked at";
    for (size_t i = 0; i < process->mappings_count; i++) {
        const struct hf_live_mapping *mapping = &process->mappings[i];
        if (mapping->inode == 0 || mapping->offset != 0 || mapping->path[0] != '/')
            continue;
        const int result = hf_live_elf_open(process, mapping, &file);
        if (result == 0)
            hf_live_elf_close(&file);
        else if (result == -ENOTSUP && file.elf.why != NULL)
            *why = "it runs a 32-bit program, or one for another machine";
    }
    return -ENOEXEC;
}

/* Returns 0, or a negative errno with `why` set. To be followed by forget(). */
static int collect(struct collecting *collecting, const struct hf_live_process *process,
                   const char **why)
{
    *collecting = (struct collecting){.process = process, .slots_left = SLOTS_MOST};
    *why = "out of memory";
    if (!hf_live_objects_find(process, &collecting->objects))
        return -ENOMEM;
    if (collecting->objects.count == 0)
        return no_objects(process, why);
    return read_facts(collecting) && hf_live_routing_read(process, &collecting->objects,
                                                          collecting->facts, &collecting->routing)
               ? 0
               : -ENOMEM;
}

static void forget(struct collecting *collecting)
{
    hf_live_routing_free(&collecting->routing);
    for (size_t i = 0; collecting->facts != NULL && i < collecting->objects.count; i++)
        hf_live_facts_free(&collecting->facts[i]);
    free(collecting->facts);
    hf_live_objects_free(&collecting->objects);
}

int hf_doctor_live_record(const struct hf_live_process *process, const char **why)
{
    struct collecting collecting;
    char *text = NULL;
    size_t size = 0;
    int result = collect(&collecting, process, why);
    collecting.out = result == 0 ? open_memstream(&text, &size) : NULL;
    if (result == 0 && collecting.out == NULL)
        result = -ENOMEM;
    if (collecting.out != NULL) {
        write_record(&collecting);
        bool good = ferror(collecting.out) == 0;
        good = fclose(collecting.out) == 0 && good;
        result = good ? finish(text, size) : -ENOMEM;
        if (result < 0 && result != -ENOMEM)
            *why = strerror(-result);
    }
    free(text);
    forget(&collecting);
    return result;
}

/* Whether the tables of the process's heap are known; otherwise `why` says why not. To be followed
 * by forget(). */
static bool find_heap(struct collecting *collecting, const struct hf_live_process *process,
                      const char **why)
{
    const struct hf_live_routing *routing = &collecting->routing;
    if (collect(collecting, process, why) != 0)
        return false;
    *why = process->memory < 0         ? process->unreadable
           : !routing->present         ? "homefree is not in it"
           : routing->heap == SIZE_MAX ? routing->why
                                       : "the heap's tables are damaged";
    return process->memory >= 0 && routing->heap != SIZE_MAX;
}

static void visit_pages(const struct collecting *collecting, hf_doctor_pages_visitor *visit,
                        void *context)
{
    const struct hf_live_routing *routing = &collecting->routing;
    for (size_t i = 0; i < routing->runs_count; i++) {
        const struct hf_live_run *run = &routing->runs[i];
        for (size_t a = 0; a < routing->allocators_count; a++) {
            const struct hf_live_allocator *allocator = &routing->allocators[a];
            if (allocator->number == run->number)
                visit(context, allocator->name,
                      collecting->objects.items[allocator->object].mapping->path, run->start,
                      run->end);
        }
    }
}

bool hf_doctor_live_heap(const struct hf_live_process *process, hf_doctor_pages_visitor *pages,
                         hf_live_heap_visitor *visit, void *context, struct hf_live_heap *out,
                         const char **why)
{
    struct collecting collecting;
    const bool found = find_heap(&collecting, process, why);
    if (found && pages != NULL)
        visit_pages(&collecting, pages, context);
    const bool good =
        found && hf_live_heap_read(process, collecting.routing.blocks, visit, context, out);
    forget(&collecting);
    return good;
}

bool hf_doctor_live_profile(const struct hf_live_process *process, hf_live_profile_visitor *visit,
                            void *context, struct hf_live_profiled *out, const char **why)
{
    struct collecting collecting;
    const bool good =
        find_heap(&collecting, process, why) &&
        hf_live_profile_read(process, collecting.routing.profile, visit, context, out);
    forget(&collecting);
    return good;
}

uint64_t hf_doctor_live_trim(const struct hf_live_process *process, const char **why)
{
    struct collecting collecting;
    const uint64_t at = find_heap(&collecting, process, why) ? collecting.routing.trim : 0;
    forget(&collecting);
    return at;
}
