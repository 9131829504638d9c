/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits: which there are, of what objects. What homefree/limit.h says, in the heap's instance.
 *
 * The dynamic loader's lock guards all that is owned here. Whoever only reads a limit takes none:
 * it may end meanwhile, and what is told then is of no limit.
 */
#include "alloc/base/fork_lock.h"
#include "alloc/base/sized.h"
#include "alloc/build_stamp.h"
#include "satellites/limits/limits_core.h"
#include "satellites/limits/thunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LG_LIMITS = 6 };
_Static_assert(1 << LG_LIMITS == HF_LIMITS_COUNT, "a handle has the number");

struct place {
    struct place *next;
    char path[];
};
struct limit {
    uintptr_t serial; /* atomic; 0: it is free. Nobody has two of the same. */
    struct place *places;
    char *name;
};
static struct limit limits[HF_LIMITS_COUNT];
static uintptr_t serials; /* so many began */
/* Who frees a name, or copies one of a limit that somebody else may end. A leaf. */
static pthread_mutex_t HF_FORK_LOCK naming = PTHREAD_MUTEX_INITIALIZER;

/* What callers have is no address: a limit that has ended is known as such. */
static struct hf_limit *handle_of(unsigned limit)
{
    return (struct hf_limit *)(limits[limit].serial << LG_LIMITS | limit);
}

/* False: it has ended. */
static bool find(const struct hf_limit *handle, unsigned *limit)
{
    const uintptr_t serial = (uintptr_t)handle >> LG_LIMITS;
    *limit = (unsigned)((uintptr_t)handle % HF_LIMITS_COUNT);
    return serial != 0 && __atomic_load_n(&limits[*limit].serial, __ATOMIC_ACQUIRE) == serial;
}

/* ---- whose objects ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool matches(const char *wanted, const char *path)
{
    const size_t length = strlen(wanted);
    if (length != 0 && wanted[length - 1] == '/')
        return strncmp(path, wanted, length) == 0;
    return strcmp(path, wanted) == 0 ||
           (strchr(wanted, '/') == NULL && strcmp(last_part(path), wanted) == 0);
}

static bool is_of(const struct limit *limit, const char *path)
{
    const struct place *place = limit->places;
    while (place != NULL && !matches(place->path, path))
        place = place->next;
    return place != NULL;
}

/* ---- slots ---- */

struct change {
    struct hf_limit_slots slots; /* first */
    unsigned limit;
    struct place *place; /* of the objects that are new; NULL: those that the limit has */
    char *name;
    unsigned objects, functions;
    bool taken; /* a slot leads to another limit */
    bool kept;  /* the strings are the limit's */
    int error;
    /* what begin_limit() was called with */
    uint64_t bytes;
    const struct hf_limit_options *options;
    const struct hf_limit *handle;
    struct limit ended; /* whose strings nobody has any more */
};

static bool wants(const struct hf_limit_slots *slots, const struct link_map *map, const char *path)
{
    struct change *change = (struct change *)(uintptr_t)slots;
    (void)map;
    const bool wanted = change->place != NULL ? matches(change->place->path, path)
                                              : is_of(&limits[change->limit], path);
    change->objects += wanted;
    return wanted;
}

/* Looks, so that nothing has to be undone. */
static void *look(const struct hf_limit_slots *slots, enum hf_limit_kind kind, void *function)
{
    struct change *change = (struct change *)(uintptr_t)slots;
    unsigned limit;
    (void)kind;
    change->functions++;
    if (hf_thunk_function(function, &limit) != NULL && limit != change->limit)
        change->taken = true;
    return NULL;
}

static void *put(const struct hf_limit_slots *slots, enum hf_limit_kind kind, void *function)
{
    struct change *change = (struct change *)(uintptr_t)slots;
    unsigned limit;
    if (hf_thunk_function(function, &limit) != NULL)
        return NULL;
    void *thunk = hf_thunk_for(change->limit, kind, function);
    if (thunk == NULL)
        change->error = -EMFILE;
    return thunk;
}

static void *take_away(const struct hf_limit_slots *slots, enum hf_limit_kind kind, void *function)
{
    const struct change *change = (const struct change *)(const void *)slots;
    unsigned limit;
    (void)kind;
    void *plain = hf_thunk_function(function, &limit);
    return plain != NULL && limit == change->limit ? plain : NULL;
}

static bool wants_all(const struct hf_limit_slots *slots, const struct link_map *map,
                      const char *path)
{
    (void)slots;
    (void)map;
    (void)path;
    return true;
}

/* With the loader's lock, in a slot update. An object of a limit is loaded later than that. */
static void loaded(const struct link_map *map)
{
    for (unsigned i = 0; i < HF_LIMITS_COUNT; i++)
        if (limits[i].serial != 0) {
            struct change change = {.slots = {.wants = wants, .choose = put}, .limit = i};
            hf_core()->slots_from(&change.slots, map);
            __atomic_add_fetch(&hf_policies[i].objects, change.objects, __ATOMIC_RELAXED);
        }
}

/* ---- beginning ---- */

static int open_limit(struct change *change)
{
    const struct hf_limit_options *options = change->options;
    unsigned i = 0;
    while (i < HF_LIMITS_COUNT && limits[i].serial != 0)
        i++;
    if (i == HF_LIMITS_COUNT)
        return -EMFILE;
    const int error = hf_core()->open(i, change->bytes, options->mode == HF_LIMIT_WARN);
    if (error != 0)
        return error;
    change->limit = i;
    hf_policies[i] = (struct hf_policy){.mode = options->mode,
                                        .callback = options->callback,
                                        .context = options->context,
                                        .name = change->name};
    return 0;
}

static void begin_change(struct hf_limit_slots *slots)
{
    struct change *change = (struct change *)slots;
    if (change->handle == NULL)
        change->error = open_limit(change);
    else
        change->error = find(change->handle, &change->limit) ? 0 : -EINVAL;
}

/* After the look, if all is well, the slots are visited again, and written. */
static bool end_change(struct hf_limit_slots *slots)
{
    struct change *change = (struct change *)slots;
    struct limit *limit = &limits[change->limit];
    struct place *place = change->place;
    if (change->error == 0)
        change->error = slots->error;
    if (change->error != 0 || slots->choose == put)
        return false;
    /* What is below a further directory may come later. */
    const bool now =
        place != NULL && (change->handle == NULL || place->path[strlen(place->path) - 1] != '/');
    change->error = now && change->objects == 0     ? -ENOENT
                    : now && change->functions == 0 ? -EXDEV
                    : change->taken                 ? -EEXIST
                                                    : 0;
    if (change->error != 0)
        return false;
    __atomic_add_fetch(&hf_policies[change->limit].objects, change->objects, __ATOMIC_RELAXED);
    if (place != NULL) {
        place->next = limit->places;
        limit->places = place;
    }
    change->kept = true;
    if (change->handle == NULL) {
        limit->name = change->name;
        __atomic_store_n(&limit->serial, ++serials, __ATOMIC_RELEASE);
    }
    slots->choose = put;
    return place != NULL;
}

static int end_limit(struct hf_limit *handle);

/* Takes over the strings. */
static int change_slots(struct change *change)
{
    change->slots = (struct hf_limit_slots){.wants = wants, .choose = look};
    int error = hf_core()->slots_all(&change->slots, begin_change, end_change);
    if (error == 0)
        error = change->error;
    if (error != 0 && change->kept && change->handle == NULL)
        (void)end_limit(handle_of(change->limit)); /* in part */
    if (!change->kept) {
        free(change->place);
        free(change->name);
    }
    return error;
}

static struct place *place_of(const char *path)
{
    const size_t size = strlen(path) + 1;
    struct place *place = malloc(sizeof *place + size);
    if (place != NULL)
        memcpy(place->path, path, size);
    return place;
}

static int begin_limit(struct hf_limit **out, const char *path, uint64_t bytes,
                       const struct hf_limit_options *options)
{
    struct hf_limit_options mine = {.size = sizeof mine};
    if (options != NULL && options->size <= sizeof mine.size)
        return -EINVAL;
    if (options != NULL)
        memcpy((char *)&mine + sizeof mine.size, (const char *)options + sizeof mine.size,
               (options->size < sizeof mine ? options->size : sizeof mine) - sizeof mine.size);
    if (mine.mode > HF_LIMIT_TRIM)
        return -EINVAL;
    hf_policy_start();
    if (!hf_core()->slots_offer(loaded))
        return -EPERM;
    const char *whole = path != NULL ? path : "";
    const char *name = mine.name != NULL ? mine.name : last_part(whole);
    struct change change = {.place = path != NULL ? place_of(path) : NULL,
                            .name = strdup(name[0] != '\0' ? name : whole),
                            .bytes = bytes,
                            .options = &mine};
    if ((path != NULL && change.place == NULL) || change.name == NULL) {
        free(change.place);
        free(change.name);
        return -ENOMEM;
    }
    const int error = change_slots(&change);
    if (error == 0)
        *out = handle_of(change.limit);
    return error;
}

static int add_place(struct hf_limit *handle, const char *path)
{
    struct change change = {.place = place_of(path), .handle = handle};
    return change.place != NULL ? change_slots(&change) : -ENOMEM;
}

/* ---- looking ---- */

static int set_bytes(struct hf_limit *handle, uint64_t bytes)
{
    unsigned limit;
    if (!find(handle, &limit))
        return -EINVAL;
    __atomic_store_n(&hf_core()->limited[limit].most, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&hf_core()->limited[limit].crossed, false, __ATOMIC_RELAXED);
    return 0;
}

static int read_limit(const struct hf_limit *handle, struct hf_limit_state *out)
{
    unsigned limit;
    if (!find(handle, &limit))
        return -EINVAL;
    const struct hf_limit_state state = hf_policy_state(limit);
    hf_sized_copy(out, &state, sizeof state);
    return 0;
}

static int number_of(const struct hf_limit *handle)
{
    unsigned limit;
    return find(handle, &limit) ? (int)limit : -EINVAL;
}

/* The state, with a name that the caller frees; false if there is no such limit. */
static bool read_with_name(unsigned limit, struct hf_limit_state *state, char **name)
{
    pthread_mutex_lock(&naming);
    const bool lives = __atomic_load_n(&limits[limit].serial, __ATOMIC_ACQUIRE) != 0;
    if (lives) {
        *state = hf_policy_state(limit);
        state->name = *name = strdup(state->name);
    }
    pthread_mutex_unlock(&naming);
    return lives;
}

static int visit_limits(hf_limit_visitor *visit, void *context)
{
    struct hf_limit_state state;
    char *name;
    int result = 0;
    for (unsigned i = 0; i < HF_LIMITS_COUNT && result == 0; i++)
        if (read_with_name(i, &state, &name)) {
            result = visit(context, &state);
            free(name);
        }
    return result;
}

/* ---- ending ---- */

static void begin_end(struct hf_limit_slots *slots)
{
    struct change *change = (struct change *)slots;
    change->error = find(change->handle, &change->limit) ? 0 : -EINVAL;
    if (change->error != 0)
        slots->choose = look;
}

static bool end_end(struct hf_limit_slots *slots)
{
    struct change *change = (struct change *)slots;
    struct limit *limit = &limits[change->limit];
    if (change->error != 0)
        return false;
    hf_thunks_end(change->limit);
    change->error = hf_core()->close(change->limit);
    if (change->error != 0)
        return false;
    change->ended = *limit;
    __atomic_store_n(&limit->serial, 0, __ATOMIC_RELEASE);
    limit->places = NULL;
    return false;
}

static int end_limit(struct hf_limit *handle)
{
    unsigned limit;
    if (!find(handle, &limit))
        return -EINVAL;
    hf_policy_end(limit);
    struct change change = {.slots = {.wants = wants_all, .choose = take_away}, .handle = handle};
    const int error = hf_core()->slots_all(&change.slots, begin_end, end_end);
    for (struct place *place = change.ended.places, *next; place != NULL; place = next) {
        next = place->next;
        free(place);
    }
    pthread_mutex_lock(&naming);
    free(change.ended.name);
    pthread_mutex_unlock(&naming);
    return error != 0 ? error : change.error;
}

/* ---- what the core calls of this satellite ---- */

static const struct hf_limits_functions table = {
    .begin = begin_limit,
    .add = add_place,
    .set = set_bytes,
    .read = read_limit,
    .number = number_of,
    .each = visit_limits,
    .end = end_limit,
};

HF_SATELLITE_WITH(limits, table, NULL);
