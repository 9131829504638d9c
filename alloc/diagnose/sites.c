/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of sites and the table of objects. Entries appear under the records' lock and are
 * read without. See sites.h.
 */
#include "alloc/diagnose/sites.h"

#include "alloc/base/base_name.h"
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/known_sites.h"
#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/recent.h"
#include "alloc/diagnose/report_file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS_MAX = 4096, PROBES = 64 };
_Static_assert((int)HF_SITE_NUMBERS <= (int)HF_FOOTER_SITES, "a footer has room for each number");

struct hf_site hf_sites[HF_SITES_ROOM];

struct hf_recorded_site hf_recorded_sites[HF_SITE_NUMBERS];
static uint32_t site_count; /* site 0 is unknown */

static struct {
    const struct link_map *map;
    uintptr_t base;
    const void *dynamic;
    const char *path; /* in the file's memory, like the record */
    const struct hf_report_object *record;
} objects[OBJECTS_MAX];
static uint16_t object_count; /* object 0 is unknown */

/* ---- objects ---- */

/* Copies the build id from the object's notes in memory. */
static void read_build_id(const struct link_map *map, struct hf_report_object *out)
{
    struct hf_object object;
    size_t size = 0;
    const void *id = hf_dynlink_open(map, &object)
                         ? hf_object_note(&object, "GNU", NT_GNU_BUILD_ID, NULL, &size)
                         : NULL;
    if (id == NULL || size > sizeof out->build)
        return;
    memcpy(out->build, id, size);
    out->build_size = (uint32_t)size;
}

static char program[PATH_MAX];

void hf_sites_start(void)
{
    const int saved_errno = errno;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    errno = saved_errno;
}

static uint32_t record_path(const struct link_map *map, const char **recorded_path)
{
    const bool is_program = map->l_name[0] == '\0' && map->l_prev == NULL;
    if (is_program && program[0] == '\0') /* a call before hf_sites_start() */
        hf_sites_start();
    const char *name = is_program && program[0] != '\0' ? program : hf_dynlink_name(map);
    return hf_report_string(name, strlen(name), recorded_path);
}

/* Object 0 of the file. */
static bool record_unknown(void)
{
    if (object_count != 0)
        return true;
    if (hf_report_add(HF_REPORT_OBJECTS, sizeof(struct hf_report_object), NULL) == NULL)
        return false;
    hf_report_publish(HF_REPORT_OBJECTS, sizeof(struct hf_report_object));
    object_count = 1;
    return true;
}

uint16_t hf_site_object_number(const struct link_map *map)
{
    if (!record_unknown() || map == NULL)
        return 0;
    for (uint16_t i = object_count; i-- > 1;)
        if (objects[i].map == map && objects[i].base == map->l_addr &&
            objects[i].dynamic == map->l_ld)
            return i;
    if (object_count == OBJECTS_MAX)
        return 0;
    const char *recorded_path;
    uint32_t path = record_path(map, &recorded_path);
    struct hf_report_object *object = hf_report_add(HF_REPORT_OBJECTS, sizeof *object, NULL);
    if (object == NULL)
        return 0;
    object->base = map->l_addr;
    object->path = path;
    read_build_id(map, object);
    hf_report_publish(HF_REPORT_OBJECTS, sizeof *object);
    objects[object_count].map = map;
    objects[object_count].base = map->l_addr;
    objects[object_count].dynamic = map->l_ld;
    objects[object_count].path = recorded_path;
    objects[object_count].record = object;
    return object_count++;
}

/* ---- sites ---- */

/* Writes a site to the file. Under the lock. Returns its number, 0 if there is no room. */
static uint32_t record_site(const void *address, unsigned function, uint16_t object)
{
    if (site_count == 0) {
        if (hf_report_add(HF_REPORT_SITES, sizeof(struct hf_report_site), NULL) == NULL)
            return 0;
        hf_report_publish(HF_REPORT_SITES, sizeof(struct hf_report_site));
        site_count = 1;
    }
    if (site_count == HF_SITES_ROOM)
        return 0;
    struct hf_report_site *site = hf_report_add(HF_REPORT_SITES, sizeof *site, NULL);
    if (site == NULL)
        return 0;
    *site = (struct hf_report_site){(uintptr_t)address, object, (uint16_t)function, 0};
    hf_report_publish(HF_REPORT_SITES, sizeof *site);
    hf_recorded_sites[site_count].address = address;
    hf_recorded_sites[site_count].object = object;
    hf_recorded_sites[site_count].function = (uint16_t)function;
    hf_recorded_sites[site_count].for_python =
        objects[object].path != NULL && hf_report_calls_for_python(objects[object].path);
    return site_count++;
}

/* What an earlier report has blocks of the place get; 0 if it does not know the place. */
static uint16_t depth_of(const void *address, uint16_t object)
{
    const struct hf_report_object *record = objects[object].record;
    if (record == NULL || objects[object].path == NULL)
        return 0;
    const enum hf_known known =
        hf_known_site(objects[object].path, (uintptr_t)address - record->base, record);
    return known == HF_KNOWN_ACCESSED ? HF_SITE_DEEP | HF_SITE_SAMPLED
                                      : (known == HF_KNOWN ? HF_SITE_DEEP : 0);
}

/* The place for a key: where it is, or the first free one. NULL: no room nearby. */
static struct hf_site *find_place(uint64_t key)
{
    size_t at = (key * 0x9e3779b97f4a7c15) >> 47 & (HF_SITES_ROOM - 1);
    for (int i = 0; i < PROBES; i++, at = (at + 1) & (HF_SITES_ROOM - 1)) {
        uint64_t there = __atomic_load_n(&hf_sites[at].key, __ATOMIC_ACQUIRE);
        if (there == key || there == 0) /* 1: forgotten, but others lie behind */
            return &hf_sites[at];
    }
    return NULL;
}

struct hf_site hf_site_add(uint64_t key)
{
    static const struct hf_site unknown;
    struct hf_site *place = find_place(key);
    if (place != NULL && place->key == key)
        return *place;
    if (place == NULL || hf_report_header() == NULL) {
        hf_report_drop();
        return unknown;
    }
    const void *address = (const void *)(uintptr_t)(key >> 8);
    /* The call may be the function's last instruction. */
    const struct link_map *map = hf_dynlink_find_fast((const char *)address - 1);
    if (!hf_report_lock()) {
        hf_report_drop();
        return unknown;
    }
    place = find_place(key);
    struct hf_site result = unknown;
    if (place != NULL && place->key != key) {
        uint16_t object = hf_site_object_number(map);
        uint32_t number = record_site(address, (unsigned)(key & 0xff), object);
        if (number != 0) {
            place->number = number;
            place->object = object;
            place->deep = depth_of(address, object);
            if (hf_recorded_sites[number].for_python && hf_python_stack_is_known())
                place->deep |= HF_SITE_DEEP;
            __atomic_store_n(&place->key, key, __ATOMIC_RELEASE);
        }
    }
    if (place != NULL && place->key == key)
        result = *place;
    hf_report_unlock();
    return result;
}

static void deepen(uint32_t number, uint16_t depth)
{
    if (depth == 0 || number == 0 || number >= site_count)
        return;
    const struct hf_recorded_site *site = &hf_recorded_sites[number];
    const uint64_t key = (uint64_t)(uintptr_t)site->address << 8 | site->function;
    struct hf_site *place = find_place(key);
    if (place == NULL || place->key != key)
        return;
    __atomic_store_n(&place->deep, place->deep | depth, __ATOMIC_RELAXED);
    hf_recent_forget((struct hf_call_site){(enum hf_report_function)site->function, site->address});
}

void hf_site_deepen(uint32_t number)
{
    deepen(number, HF_SITE_DEEP);
}

void hf_sites_deepen_known(void)
{
    if (!hf_report_lock())
        return;
    for (uint32_t i = 1; i < site_count; i++)
        deepen(i, depth_of(hf_recorded_sites[i].address, hf_recorded_sites[i].object));
    hf_report_unlock();
}

const char *hf_site_object_path(uint32_t number)
{
    const char *path = objects[hf_site_object(number)].path;
    return path != NULL ? path : "";
}

bool hf_site_is_module(uint32_t number)
{
    static const char *const names[] = {"python", "libpython", "pypy", "ld-linux", "ld.so"};
    enum hf_report_function function;
    const void *address = hf_site_address(number, &function);
    const char *name = hf_base_name(hf_site_object_path(number));
    if (address == NULL || *name == '\0' ||
        hf_dynlink_find((const char *)address - 1) == hf_dynlink_find(hf_sites))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return false;
    return true;
}

const void *hf_site_address(uint32_t number, enum hf_report_function *function)
{
    *function = number < HF_SITE_NUMBERS
                    ? (enum hf_report_function)hf_recorded_sites[number].function
                    : HF_FUNCTION_unknown;
    return number < HF_SITE_NUMBERS ? hf_recorded_sites[number].address : NULL;
}

uint64_t hf_site_offset(uint32_t number)
{
    const struct hf_report_object *record = objects[hf_site_object(number)].record;
    return number < HF_SITE_NUMBERS
               ? (uintptr_t)hf_recorded_sites[number].address - (record != NULL ? record->base : 0)
               : 0;
}

uint32_t hf_sites_count(void)
{
    return site_count;
}

/* Whether an object that was recorded is no longer where it was. */
static bool is_gone(uint16_t object)
{
    return objects[object].map != NULL &&
           hf_dynlink_find_fast(objects[object].dynamic) != objects[object].map;
}

bool hf_sites_unloaded(void)
{
    bool gone[OBJECTS_MAX] = {false}, any = false;
    if (!hf_report_lock())
        return false;
    for (uint16_t i = 1; i < object_count; i++)
        if (is_gone(i)) {
            objects[i].map = NULL;
            gone[i] = any = true;
        }
    for (size_t i = 0; any && i < HF_SITES_ROOM; i++)
        if (hf_sites[i].key != 0 && gone[hf_sites[i].object])
            __atomic_store_n(&hf_sites[i].key, 1, __ATOMIC_RELEASE); /* no call's key */
    if (any)
        hf_recent_forget_all();
    hf_report_unlock();
    return any;
}
