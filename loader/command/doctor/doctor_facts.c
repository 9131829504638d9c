/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queries that both the findings and the report make on a record, and the table of rules. Owns
 * nothing; see doctor_record.h.
 */
#include "loader/command/doctor/doctor_record.h"

#include <signal.h>
#include <string.h>

#define HF_DOCTOR_RULE(id, name, severity, explanation, remedy) \
    [HF_DOCTOR_RULE_##id] = {name, HF_SEVERITY_##severity, explanation, remedy},
const struct hf_rule_text hf_doctor_rules[HF_DOCTOR_RULE_COUNT] = {
#include "loader/record/process_record.def"
};
#undef HF_DOCTOR_RULE

bool hf_record_has(const struct hf_record_set *set, size_t index)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->indices[i] == index)
            return true;
    return false;
}

bool hf_record_soname_is(const struct hf_record_object *object, const char *start)
{
    return object->soname != NULL && strncmp(object->soname, start, strlen(start)) == 0;
}

bool hf_record_is_libc(const struct hf_record_object *object)
{
    return hf_record_soname_is(object, "libc.so");
}

const char *hf_record_inside(const struct hf_record_object *object, size_t index,
                             const struct hf_record_foreign **foreign)
{
    *foreign = index < object->foreign_count ? &object->foreign[index] : NULL;
    if (*foreign != NULL)
        return (*foreign)->allocator;
    index -= object->foreign_count;
    for (size_t i = 0; i < object->allocators_count; i++) {
        const char *name = hf_allocator_name(object->allocators[i].allocator);
        bool told = false;
        for (size_t n = 0; n < object->foreign_count; n++)
            told = told || strcmp(object->foreign[n].allocator, name) == 0;
        if (!told && index-- == 0)
            return name;
    }
    return NULL;
}

const char *hf_record_allocator(const struct hf_record_object *object)
{
    const struct hf_record_foreign *foreign;
    if (object->role == HF_RECORD_HOMEFREE)
        return "homefree";
    if (hf_record_is_libc(object))
        return "libc";
    return hf_record_inside(object, 0, &foreign);
}

bool hf_record_home(const struct hf_record_object *object)
{
    bool home = object->foreign_count > 0;
    for (size_t i = 0; i < object->foreign_count; i++)
        home = home && object->foreign[i].home;
    return home;
}

/* sigabbrev_np() is newer than the oldest glibc that the command supports. */
const char *hf_record_signal(int number)
{
#define NAME(signal)    \
    {                   \
        signal, #signal \
    }
    static const struct {
        int number;
        const char *name;
    } names[] = {
        NAME(SIGHUP),  NAME(SIGINT),  NAME(SIGQUIT), NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
        NAME(SIGBUS),  NAME(SIGFPE),  NAME(SIGKILL), NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
        NAME(SIGPIPE), NAME(SIGALRM), NAME(SIGTERM), NAME(SIGXCPU), NAME(SIGXFSZ), NAME(SIGSYS),
    };
#undef NAME
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            return names[i].name;
    return "a signal";
}
