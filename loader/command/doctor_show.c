/*
 * Owns nothing; see doctor_show.h. Paths and reasons come from outside: text.h prints them.
 */
#include "doctor_show.h"

#include "text.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* sigabbrev_np() is younger than the libcs that this is for. */
const char *hf_doctor_signal(int number)
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

/* ---- the table ------------------------------------------------------------------------------ */

static void print_bytes(FILE *out, uint64_t bytes)
{
    static const char units[] = " KMGTP";
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit + 2 < sizeof units; unit++)
        value /= 1024;
    if (unit == 0)
        fprintf(out, "%" PRIu64 " bytes", bytes);
    else
        fprintf(out, value < 10 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

static void print_process(FILE *out, const struct hf_record *record, bool coloured)
{
    static const struct {
        const char *name, *text;
    } moments[] = {
        {"exit", "as it ended"},
        {"start", "as it started"},
        {"signal", "as a signal ended it"},
        {"asked", "when it was asked"},
    };
    fputs(coloured ? "\033[1m" : "", out);
    hf_text_print(out, record->program != NULL ? record->program : "(unnamed)");
    fprintf(out, "%s, process %" PRIu64, coloured ? "\033[m" : "", record->pid);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++)
        if (strcmp(record->moment, moments[i].name) == 0)
            fprintf(out, ", %s", moments[i].text);
    fprintf(out, "\n\nAllocators:\n");
}

static void print_allocator(FILE *out, const struct hf_record *record, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    const char *known = hf_record_allocator(object);
    const size_t users = hf_record_users(record, index);
    fprintf(out, "  %-10s ", known != NULL ? known : "unknown");
    hf_text_print(out, object->path);
    if (object->heap) {
        fputs(": the heap", out);
        if (record->heap_known) {
            fputs(", ", out);
            print_bytes(out, record->allocated);
            fputs(" in blocks", out);
        }
    } else if (object->role == HF_RECORD_HOMEFREE) {
        fputs(": forwards to the heap", out);
    } else if (users > 0) {
        fprintf(out, ": used by %zu object%s", users, users == 1 ? "" : "s");
    } else if (hf_record_home(object)) {
        fputs(": its own; homefree sends its pointers home", out);
    } else if (object->allocators_count > 0) {
        fputs(": its own", out);
    } else {
        fputs(": used by nobody", out);
    }
    for (size_t i = 0; i < object->neighbours_count; i++) {
        if (object->neighbours[i].bytes == 0)
            continue;
        fputs(", ", out);
        print_bytes(out, object->neighbours[i].bytes);
        fputs(" mapped", out);
        if (object->neighbours_count > 1) {
            fputs(" by ", out);
            hf_text_print(out, object->neighbours[i].allocator);
        }
    }
    fputc('\n', out);
}

static bool is_allocator(const struct hf_record *record, size_t index)
{
    const struct hf_record_object *object = &record->objects[index];
    if (object->role == HF_RECORD_LINKER)
        return false;
    return object->role == HF_RECORD_HOMEFREE || object->neighbours_count > 0 ||
           object->allocators_count > 0 || (object->defines_malloc && object->defines_free) ||
           hf_record_users(record, index) > 0;
}

static void print_set(FILE *out, const struct hf_record *record, const struct hf_record_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct hf_record_object *object = &record->objects[set->indices[i]];
        const char *known = hf_record_allocator(object), *slash = strrchr(object->path, '/');
        fputs(i == 0 ? "" : ", ", out);
        hf_text_print(out, known != NULL ? known : slash != NULL ? slash + 1 : object->path);
    }
    if (set->count == 0)
        fputc('-', out);
}

static bool is_empty(const struct hf_record_object *object)
{
    return object->allocates.count + object->frees.count + object->news.count +
               object->deletes.count ==
           0;
}

/* Whether an object does as most do: everything from and to libc of its namespace, all routed. */
static bool is_usual(const struct hf_record *record, const struct hf_record_object *object)
{
    const struct hf_record_set *sets[] = {&object->allocates, &object->frees};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sets[s]->count; i++) {
            const char *known = hf_record_allocator(&record->objects[sets[s]->indices[i]]);
            if (known == NULL || strcmp(known, "libc") != 0)
                return false;
        }
    return object->refused == 0;
}

static void print_objects(FILE *out, const struct hf_record *record, bool all)
{
    size_t usual = 0, none = 0, shown = 0;
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        if (object->role == HF_RECORD_LINKER || object->role == HF_RECORD_HOMEFREE)
            continue;
        none += is_empty(object);
        usual += !is_empty(object) && is_usual(record, object);
        if (!all && (is_empty(object) || is_usual(record, object)))
            continue;
        if (shown++ == 0)
            fputs("\nObjects, with whose malloc and whose free they call, and slots routed and "
                  "refused:\n",
                  out);
        fputs("  ", out);
        hf_text_print(out, object->path);
        if (object->namespace != 0)
            fprintf(out, " (namespace %" PRIu64 ")", object->namespace);
        fputs(": ", out);
        print_set(out, record, &object->allocates);
        fputs(", ", out);
        print_set(out, record, &object->frees);
        fprintf(out, "; %zu, %zu\n", object->routed, object->refused);
    }
    if (!all)
        fprintf(out,
                "\n%zu %sobject%s libc's malloc and free; %zu use%s no allocator by name "
                "(--all lists them).\n",
                usual, shown > 0 ? "other " : "", usual == 1 ? " uses" : "s use", none,
                none == 1 ? "s" : "");
}

static void print_routing(FILE *out, const struct hf_record *record)
{
    size_t routed = 0, refused = 0, beyond = 0;
    for (size_t i = 0; i < record->objects_count; i++) {
        routed += record->objects[i].routed;
        refused += record->objects[i].refused;
        beyond += record->objects[i].reach != NULL;
    }
    fprintf(out,
            "\nRouting: %s; %zu objects, %zu slots ask for the owner first, %zu were left as they "
            "were, %zu object%s out of reach.\n\n",
            record->routing ? "on" : "off", record->objects_count, routed, refused, beyond,
            beyond == 1 ? " is" : "s are");
}

static void print_finding(FILE *out, const struct hf_record_finding *finding, int widest,
                          bool coloured)
{
    static const char *const colours[] = {"\033[36m", "\033[33m", "\033[31m"};
    const struct hf_rule_text *rule = &hf_doctor_rules[finding->rule];
    fprintf(out, "  %s%-7s%s  %-*s  ", coloured ? colours[rule->severity] : "",
            hf_severity_name(rule->severity), coloured ? "\033[m" : "", widest, rule->name);
    hf_text_print(out, finding->message);
    for (size_t i = 0; i < finding->count && i < HF_INSPECTION_NAMES_MAX; i++) {
        fputs(i == 0 ? ": " : ", ", out);
        hf_text_print(out, finding->names[i]);
    }
    fputs(finding->count > HF_INSPECTION_NAMES_MAX ? ", ...\n" : "\n", out);
}

void hf_doctor_print(FILE *out, const struct hf_record *record, bool all, bool coloured)
{
    print_process(out, record, coloured);
    for (size_t i = 0; i < record->objects_count; i++)
        if (is_allocator(record, i))
            print_allocator(out, record, i);
    print_objects(out, record, all);
    print_routing(out, record);
    int widest = 0;
    for (size_t i = 0; i < record->findings_count; i++) {
        const int width = (int)strlen(hf_doctor_rules[record->findings[i].rule].name);
        widest = width > widest ? width : widest;
    }
    fputs(record->findings_count == 0 ? "Findings: none.\n" : "Findings:\n", out);
    for (int severity = HF_SEVERITY_ERROR; severity >= HF_SEVERITY_NOTE; severity--)
        for (size_t i = 0; i < record->findings_count; i++)
            if (hf_doctor_rules[record->findings[i].rule].severity == (enum hf_severity)severity)
                print_finding(out, &record->findings[i], widest, coloured);
    fputc('\n', out);
}

void hf_doctor_print_remedies(FILE *out, const bool rules[HF_DOCTOR_RULE_COUNT])
{
    bool any = false;
    for (size_t i = 0; i < HF_DOCTOR_RULE_COUNT; i++) {
        if (!rules[i])
            continue;
        fputs(any ? "" : "What to do:\n", out);
        any = true;
        fprintf(out, "  %s: %s\n", hf_doctor_rules[i].name, hf_doctor_rules[i].remedy);
    }
    if (any)
        fputs("'homefree doctor --rules' says why each matters.\n", out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_set(struct hf_json *json, const char *key, const struct hf_record *record,
                      const struct hf_record_set *set)
{
    hf_json_array(json, key);
    for (size_t i = 0; i < set->count; i++)
        hf_json_string(json, NULL, record->objects[set->indices[i]].path);
    hf_json_close(json);
}

static void write_objects(struct hf_json *json, const struct hf_record *record)
{
    static const char *const roles[] = {"ordinary", "runtime", "linker", "homefree"};
    hf_json_array(json, "objects");
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        hf_json_object(json, NULL);
        hf_json_string(json, "path", object->path);
        hf_json_string(json, "soname", object->soname);
        hf_json_unsigned(json, "namespace", object->namespace);
        hf_json_string(json, "role", roles[object->role]);
        hf_json_boolean(json, "static_tls", object->static_tls);
        write_set(json, "malloc", record, &object->allocates);
        write_set(json, "free", record, &object->frees);
        write_set(json, "new", record, &object->news);
        write_set(json, "delete", record, &object->deletes);
        hf_json_unsigned(json, "routed", object->routed);
        hf_json_unsigned(json, "refused", object->refused);
        hf_json_string(json, "out_of_reach", object->reach);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_allocators(struct hf_json *json, const struct hf_record *record)
{
    hf_json_array(json, "allocators");
    for (size_t i = 0; i < record->objects_count; i++) {
        const struct hf_record_object *object = &record->objects[i];
        if (!is_allocator(record, i))
            continue;
        hf_json_object(json, NULL);
        hf_json_string(json, "name", hf_record_allocator(object));
        hf_json_string(json, "object", object->path);
        hf_json_unsigned(json, "users", hf_record_users(record, i));
        hf_json_boolean(json, "heap", object->heap);
        hf_json_boolean(json, "home", hf_record_home(object));
        uint64_t bytes = 0;
        for (size_t n = 0; n < object->neighbours_count; n++)
            bytes += object->neighbours[n].bytes;
        hf_json_unsigned(json, "mapped", bytes);
        hf_json_close(json);
    }
    hf_json_close(json);
}

static void write_findings(struct hf_json *json, const struct hf_record *record)
{
    hf_json_array(json, "findings");
    for (size_t i = 0; i < record->findings_count; i++) {
        const struct hf_record_finding *finding = &record->findings[i];
        const struct hf_rule_text *rule = &hf_doctor_rules[finding->rule];
        hf_json_object(json, NULL);
        hf_json_string(json, "rule", rule->name);
        hf_json_string(json, "severity", hf_severity_name(rule->severity));
        hf_json_string(json, "message", finding->message);
        hf_json_string(json, "remedy", rule->remedy);
        hf_json_unsigned(json, "count", finding->count);
        hf_json_array(json, "names");
        for (size_t n = 0; n < finding->count && n < HF_INSPECTION_NAMES_MAX; n++)
            hf_json_string(json, NULL, finding->names[n]);
        hf_json_close(json);
        hf_json_close(json);
    }
    hf_json_close(json);
}

void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record)
{
    hf_json_object(json, NULL);
    hf_json_unsigned(json, "pid", record->pid);
    hf_json_string(json, "program", record->program);
    hf_json_string(json, "recorded", record->moment);
    hf_json_boolean(json, "routing", record->routing);
    hf_json_string(json, "preload", record->preload);
    hf_json_object(json, "heap");
    hf_json_unsigned(json, "reserved", record->reserved);
    if (record->heap_known) {
        hf_json_unsigned(json, "used", record->used);
        hf_json_unsigned(json, "allocated", record->allocated);
        hf_json_unsigned(json, "resident", record->resident);
    }
    hf_json_close(json);
    write_allocators(json, record);
    write_objects(json, record);
    write_findings(json, record);
    hf_json_close(json);
}
