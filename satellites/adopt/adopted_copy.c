/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopted_copy.h. Owns nothing; takes no lock.
 */
#include "satellites/adopt/adopted_copy.h"

#include "loader/elf/elf_names.h"
#include "satellites/adopt/adopted_file.h"
#include "satellites/adopt/hidden/plan.h"
#include "satellites/adopt/private/copy_bytes.h"

#include <errno.h>
#include <homefree/base.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Part of every key: copies that an older homefree wrote in another way are made anew. */
#define REVISION 8

static const char without_names[] =
    "the entry points of its allocator have no names; a debug file would have them";

/* ---- the key -------------------------------------------------------------------------------- */

/* FNV-1a, twice; keys only have to differ by chance. */
static void mix(uint64_t key[2], unsigned char byte)
{
    key[0] = (key[0] ^ byte) * 0x100000001b3;
    key[1] = (key[1] ^ byte) * 0x10000000233;
}

static void mix_number(uint64_t key[2], uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        mix(key, (unsigned char)(number >> shift));
}

static void mix_text(uint64_t key[2], const char *text)
{
    for (; *text != '\0'; text++)
        mix(key, (unsigned char)*text);
    mix(key, 0);
}

/* What the verdict about the file depends on: the file, and its debug file. The latter's contents
 * go with the file's build id. */
static void make_key(struct hf_adoption *adoption, const struct stat *status)
{
    adoption->key[0] = 0xcbf29ce484222325;
    adoption->key[1] = 0x6c62272e07bb0142;
    mix_number(adoption->key, REVISION);
    mix_text(adoption->key, HF_VERSION);
    mix_number(adoption->key, (uint64_t)status->st_dev);
    mix_number(adoption->key, (uint64_t)status->st_ino);
    mix_number(adoption->key, (uint64_t)status->st_size);
    mix_number(adoption->key, (uint64_t)status->st_mtim.tv_sec);
    mix_number(adoption->key, (uint64_t)status->st_mtim.tv_nsec);
    mix_number(adoption->key, (uint64_t)status->st_ctim.tv_sec);
    mix_number(adoption->key, (uint64_t)status->st_ctim.tv_nsec);
    mix_number(adoption->key, adoption->has_debug ? adoption->debug.size : 0);
    memcpy(adoption->content, adoption->key, sizeof adoption->content);
    mix_text(adoption->key, adoption->original);
    mix_text(adoption->key, adoption->library);
}

/* ---- making a copy -------------------------------------------------------------------------- */

static bool find_name(const struct hf_elf_symbol *symbol, size_t pattern, void *context)
{
    (void)pattern;
    *(bool *)context |= symbol->defined && symbol->type == STT_FUNC;
    return !*(bool *)context;
}

/* Whether symbols name an allocator's functions. Result: 1, 0 or a negative errno. */
static int has_allocator(struct hf_adoption *adoption)
{
    struct hf_names names;
    bool found = false;
    if (hf_names_prepare(&names, hf_allocator_patterns, hf_allocator_patterns_count) != 0)
        return -E2BIG;
    int error = hf_names_visit(&names, &adoption->elf, HF_ELF_DYNSYM, find_name, &found);
    if (error == 0 || error == -ENOENT)
        error = hf_names_visit(&names, &adoption->elf, HF_ELF_SYMTAB, find_name, &found);
    if (adoption->has_debug && !found)
        (void)hf_names_visit(&names, &adoption->debug, HF_ELF_SYMTAB, find_name, &found);
    return error == 0 || error == -ENOENT ? found : error;
}

/* What writing a copy needs. */
struct writing {
    const struct hf_image *image;
    const struct hf_plan *plan;
    struct hf_adopted_facts facts;
    const char *why;
};

static int fill(int from, int to, void *context)
{
    struct writing *writing = context;
    const int error = hf_copy_bytes(from, to);
    return error != 0 ? error
                      : hf_adopted_write(to, writing->image, writing->plan, &writing->facts,
                                         &writing->why);
}

static int write_shared(struct hf_adoption *adoption, struct hf_adopted_place *place,
                        struct writing *writing)
{
    const int from = hf_copy_open_original(adoption->original);
    if (from < 0)
        return from;
    const int to = hf_adopted_place_create(place);
    int error = to < 0 ? to : fill(from, to, writing);
    if (to >= 0 && close(to) != 0 && error == 0)
        error = -errno;
    close(from);
    if (error == 0)
        error = hf_adopted_place_finish(place);
    if (error != 0)
        hf_adopted_place_abandon(place);
    return error;
}

/* In the cache, or else where the caller says. */
static int write_copy(struct hf_adoption *adoption, const struct hf_image *image,
                      const struct hf_plan *plan, char path[PATH_MAX],
                      hf_adoption_elsewhere *elsewhere)
{
    struct writing writing = {
        image,
        plan,
        {adoption->library, adoption->original, {adoption->key[0], adoption->key[1]}},
        NULL,
    };
    struct hf_adopted_place place;
    int error = hf_adopted_place_open(&place, adoption->original, adoption->key);
    if (error == 0) {
        error = write_shared(adoption, &place, &writing);
        memcpy(path, place.path, PATH_MAX);
        hf_adopted_place_close(&place);
    }
    if (error != 0 && writing.why == NULL && elsewhere != NULL)
        error = elsewhere(adoption->original, path, fill, &writing);
    return error == 0 || writing.why == NULL
               ? error
               : HF_ADOPT_FAIL(adoption->why, error, "%s", writing.why);
}

/* Makes the plan, and the copy after it. */
static int plan_and_write(struct hf_adoption *adoption, char path[PATH_MAX],
                          hf_adoption_elsewhere *elsewhere)
{
    struct hf_image image;
    struct hf_functions functions = {0};
    struct hf_plan plan = {0};
    int error = hf_image_open(&image, &adoption->elf);
    if (error == 0)
        error =
            hf_functions_open(&functions, &image, adoption->has_debug ? &adoption->debug : NULL);
    if (error != 0 && adoption->elf.why != NULL)
        (void)HF_ADOPT_FAIL(adoption->why, error, "%s", adoption->elf.why);
    if (error == 0) {
        error = hf_plan_make(&plan, &image, &functions);
        if (error == -ENOENT)
            error = HF_ADOPT_FAIL(adoption->why, -ENOTSUP, "%s", without_names);
        else if (error != 0 && plan.why[0] != '\0')
            (void)HF_ADOPT_FAIL(adoption->why, error, "%s", plan.why);
    }
    if (error == 0)
        error = write_copy(adoption, &image, &plan, path, elsewhere);
    hf_plan_close(&plan);
    hf_functions_close(&functions);
    hf_image_close(&image);
    return error;
}

int hf_adoption_make(struct hf_adoption *adoption, char path[PATH_MAX],
                     hf_adoption_elsewhere *elsewhere)
{
    if (adoption->refused != 0)
        return adoption->refused;
    const int error = plan_and_write(adoption, path, elsewhere);
    if (error == -ENOTSUP && adoption->why[0] != '\0')
        hf_adopted_refuse(adoption->original, adoption->content, error, adoption->why);
    return error;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* A copy of this file that is there already: true, with its path. */
static bool find_copy(const struct hf_adoption *adoption, char path[PATH_MAX])
{
    struct hf_adopted_place place;
    if (hf_adopted_place_open(&place, adoption->original, adoption->key) != 0)
        return false;
    const bool has = hf_adopted_place_has(&place, adoption->original, adoption->key);
    memcpy(path, place.path, PATH_MAX);
    hf_adopted_place_close(&place);
    return has;
}

int hf_adoption_look(struct hf_adoption *adoption, char copy[PATH_MAX])
{
    copy[0] = '\0';
    int has = hf_adopted_verdict(adoption->content);
    if (has == 0 || find_copy(adoption, copy))
        return has != 0;
    copy[0] = '\0';
    adoption->refused = hf_adopted_refusal(adoption->original, adoption->content, adoption->why);
    if (has > 0 || adoption->refused != 0)
        return 1;
    has = has_allocator(adoption);
    if (has >= 0)
        hf_adopted_keep_verdict(adoption->content, has == 1);
    return has < 0 && adoption->elf.why != NULL
               ? HF_ADOPT_FAIL(adoption->why, has, "%s", adoption->elf.why)
               : has;
}

int hf_adoption_open(struct hf_adoption *adoption, const char *original, const char *library)
{
    struct stat status = {0};
    char buffer[PATH_MAX];
    *adoption = (struct hf_adoption){.original = original, .library = library};
    const int file = hf_copy_open_original(original);
    if (file < 0)
        return file;
    const int error =
        fstat(file, &status) != 0 ? -errno : hf_elf_open_descriptor(&adoption->elf, file);
    close(file);
    if (error == 0) {
        adoption->has_debug = hf_elf_is_stripped(&adoption->elf) &&
                              hf_elf_find_debug(&adoption->debug, &adoption->elf, original, buffer,
                                                sizeof buffer) == 0;
        make_key(adoption, &status);
    } else if (adoption->elf.why != NULL)
        (void)HF_ADOPT_FAIL(adoption->why, error, "%s", adoption->elf.why);
    return error;
}

void hf_adoption_close(struct hf_adoption *adoption)
{
    if (adoption->has_debug)
        hf_elf_close(&adoption->debug);
    hf_elf_close(&adoption->elf);
}
