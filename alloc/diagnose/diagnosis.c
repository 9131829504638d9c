/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the beginning and the end of a diagnosis: reads HOMEFREE_DIAGNOSE, makes the report's
 * directory, registers what happens in forked children, and prints the summary.
 *
 * The constructor runs after libhomefree's (loader/init.c). Calls that came earlier are recorded in
 * memory and reach the file now. The process that the user started prints a summary; its children
 * do so only if they found something.
 */
#include "alloc/diagnose/diagnosis.h"

#include "alloc/base/clock.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/uncancelled.h"
#include "alloc/diagnose/ancestors.h"
#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/elsewhere.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/guarded_samples_hosted.h"
#include "alloc/diagnose/known_sites.h"
#include "alloc/diagnose/leaks.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/diagnose/signals.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/suppressions.h"
#include "alloc/diagnose/timeline.h"

#include <homefree/base.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* A forked child gets a file of its own when it has recorded this many new sites, or a finding. */
enum { NEW_SITES = 64, VALUE_MAX = HF_DIAGNOSE_PAIR_MAX + 24 };

static pid_t root; /* the process that the user started */
static struct {    /* the standard error of that process; 0: unknown */
    uintmax_t device, file;
} errors_go_to;
static bool privileged;       /* ignores the environment and writes no file */
static bool quiet;            /* prints no summary */
static bool wanted;           /* is_wanted(), of a confined process */
static uint32_t sites_before; /* recorded when this process was forked */
static atomic_bool ended;
static uint32_t sample_every = HF_SAMPLING_USUAL;
static bool sample_asked;          /* by a number of the user's, which is kept to */
static char sites_path[VALUE_MAX]; /* an earlier report; "" if there is none */

/* ---- options ---- */

/* strerrordesc_np(), which needs no lock and no memory. From glibc 2.32 on; weak, so that the
 * library loads on older versions. */
extern const char *hf_describe_error(int error) __asm__("strerrordesc_np")
    __attribute__((weak, visibility("default")));

/* Prints a line about something that goes on without the report. The process that the user started
 * complains for all. */
static void warn(const char *what, const char *name, int error)
{
    struct hf_text text;
    if (root != 0 && root != getpid())
        return;
    hf_text_begin(&text);
    const char *description =
        error != 0 && hf_describe_error != NULL ? hf_describe_error(error) : NULL;
    hf_text_say(&text, "%s%s", what, name);
    if (description != NULL)
        hf_text_say(&text, ": %s", description);
    else if (error != 0)
        hf_text_say(&text, ": error %d", error);
    hf_text_write(&text);
}

static void take_mode(const char *value)
{
    if (strcmp(value, "count") == 0)
        hf_diagnose.mode = HF_REPORT_COUNT;
    else if (strcmp(value, "strict") == 0)
        hf_diagnose.mode = HF_REPORT_STRICT;
    else if (strcmp(value, "report") != 0)
        warn("HOMEFREE_DIAGNOSE: mode is count, report or strict, not ", value, 0);
}

static void take_suppressions(const char *path)
{
    unsigned line;
    int error = hf_suppressions_read(path, &line);
    char where[VALUE_MAX + 32];
    if (error == 0)
        return;
    (void)snprintf(where, sizeof where, line != 0 ? "%s:%u" : "%s", path, line);
    warn(error == -EINVAL && line != 0
             ? "expected 'RULE ALLOCATED FREED # why', and ignored the rest of "
             : "cannot read the suppressions in ",
         where, line != 0 ? 0 : -error);
}

/* One allocation in so many gets a guard page. */
static void take_sample(const char *value)
{
    char *end;
    const uintmax_t every = strtoumax(value, &end, 10);
    sample_asked = value[0] >= '0' && value[0] <= '9' && *end == '\0' && every <= HF_SAMPLING_MAX;
    if (sample_asked)
        sample_every = (uint32_t)every;
    else
        warn("HOMEFREE_DIAGNOSE: sample is a number up to 1073741824, not ", value, 0);
}

/* DEVICE-INODE of the standard error that the user gave. */
static void take_stderr(const char *value)
{
    char *end;
    errors_go_to.device = strtoumax(value, &end, 10);
    if (*end == '-')
        errors_go_to.file = strtoumax(end + 1, NULL, 10);
}

/* The process that the user started: known before anything is complained about. */
static void read_root(const char *options)
{
    const char *found = options;
    while ((found = strstr(found, ",root:")) != NULL) {
        found += strlen(",root:");
        root = (pid_t)strtol(found, NULL, 10);
    }
}

static void take_directory(const char *value)
{
    if (value[0] == '/')
        (void)snprintf(hf_diagnose.directory, sizeof hf_diagnose.directory, "%s", value);
    else
        warn("HOMEFREE_DIAGNOSE: directory is an absolute path, not ", value, 0);
}

static void take_sites(const char *value)
{
    (void)snprintf(sites_path, sizeof sites_path, "%s", value);
}

static void take_root(const char *value)
{
    (void)value; /* read_root() has it */
}

static void take_leaks(const char *value)
{
    hf_diagnose.leaks = strcmp(value, "1") == 0;
}

static void take_quiet(const char *value)
{
    quiet = strcmp(value, "1") == 0;
}

static void take_option(const char *key, const char *value)
{
    static const struct {
        const char *key;
        void (*take)(const char *value);
    } options[] = {
#define HF_DIAGNOSE_OPTION(key, value, meaning) {#key, take_##key},
#include "alloc/diagnose/diagnose_options.def"
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].key, key) == 0) {
            options[i].take(value);
            return;
        }
    warn("HOMEFREE_DIAGNOSE: ignored ", key, 0);
}

static void read_options(const char *options)
{
    char key[VALUE_MAX];
    read_root(options);
    while (*options != '\0') {
        size_t length = strcspn(options, ",");
        if (length < sizeof key) {
            memcpy(key, options, length);
            key[length] = '\0';
            char *value = strchr(key, ':');
            if (value != NULL)
                *value++ = '\0';
            take_option(key, value != NULL ? value : "");
        }
        options += length + (options[length] == ',');
    }
}

static void read_sites(void)
{
    const int error = hf_known_sites_read(sites_path);
    hf_sites_deepen_known();
    if (error != 0)
        warn(error == -ENOEXEC ? "this homefree finds no report of its own in "
                               : "cannot read the sites in ",
             sites_path, error == -ENOEXEC ? 0 : -error);
}

/* Without a directory from the environment: an ancestor's, which may have started this process with
 * an environment of its own making, or one in the current directory. */
static void choose_directory(void)
{
    char here[512];
    if (hf_ancestors_directory(hf_diagnose.directory, sizeof hf_diagnose.directory)) {
        root = getppid();
        return;
    }
    if (getcwd(here, sizeof here) != NULL)
        (void)snprintf(hf_diagnose.directory, sizeof hf_diagnose.directory, "%s/homefree-report.%d",
                       here, (int)getpid());
}

/* Replaces a variable where it lies. Programs such as bash have a setenv() of their own. */
static bool replace_variable(char *variable)
{
    const size_t length = strcspn(variable, "=") + 1;
    for (char **at = environ; at != NULL && *at != NULL; at++)
        if (strncmp(*at, variable, length) == 0) {
            *at = variable;
            return true;
        }
    return false;
}

/* Passes on to children what this process has decided. */
static void tell_children(void)
{
    static const char *const modes[] = {"", "count", "report", "strict"};
    static char variable[2 * VALUE_MAX];
    const char *options = getenv(HF_DIAGNOSE_VARIABLE);
    if (options != NULL)
        (void)snprintf(variable, sizeof variable, HF_DIAGNOSE_VARIABLE "=%s,root:%d,stderr:%ju-%ju",
                       options, (int)root, errors_go_to.device, errors_go_to.file);
    else
        (void)snprintf(variable, sizeof variable,
                       HF_DIAGNOSE_VARIABLE "=mode:%s,directory:%s,root:%d,stderr:%ju-%ju",
                       modes[hf_diagnose.mode], hf_diagnose.directory, (int)root,
                       errors_go_to.device, errors_go_to.file);
    if (!replace_variable(variable))
        (void)setenv(HF_DIAGNOSE_VARIABLE, strchr(variable, '=') + 1, 1);
}

/* ---- the header ---- */

/* Cuts the text short if it does not fit. */
static void copy_text(char *to, size_t capacity, const char *text)
{
    size_t length = strnlen(text, capacity - 1);
    memcpy(to, text, length);
    to[length] = '\0';
}

static void fill_header(struct hf_report_header *header)
{
    struct utsname names;
    header->mode = hf_diagnose.mode;
    header->process = (uint32_t)getpid();
    header->parent = (uint32_t)getppid();
    header->end = HF_REPORT_RUNS;
    header->started = hf_clock(CLOCK_REALTIME_COARSE);
    header->ended = 0;
    copy_text(header->homefree, sizeof header->homefree, HF_VERSION);
    if (uname(&names) == 0)
        copy_text(header->host, sizeof header->host, names.nodename);
    int file = hf_open_uncancelled("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t length = hf_read_uncancelled(file, header->command, sizeof header->command);
    header->command_size = length > 0 ? (uint32_t)length : 0;
    hf_close_uncancelled(file);
}

static void make_file(void)
{
    static bool warned;
    if (hf_diagnose.directory[0] == '\0' || !hf_report_lock())
        return;
    int error = hf_report_to_file(hf_diagnose.directory);
    hf_report_unlock();
    if (error != 0 && error != -EMFILE && !warned) {
        warned = true;
        warn("cannot write a report into ", hf_diagnose.directory, -error);
    }
}

/* ---- fork ---- */

static void in_child(void)
{
    int saved_errno = errno;
    struct hf_report_header *header = hf_report_header();
    if (header == NULL)
        return;
    hf_report_in_child();
    hf_counts_in_child();
    hf_findings_in_child();
    hf_timeline_in_child();
    hf_elsewhere_in_child();
    if (!hf_report_is_confined()) {
        fill_header(header);
    } else if (header->process != 0) { /* its number is unknown */
        header->parent = header->process;
        header->process = 0;
    }
    sites_before = hf_sites_count();
    atomic_store(&ended, false);
    errno = saved_errno;
}

/* ---- the end ---- */

/* Whether a summary without findings goes where the user expects it, and not into a file that the
 * program has opened or redirected its standard error to. */
static bool is_wanted(void)
{
    struct stat status;
    if (hf_report_is_confined())
        return wanted;
    return fstat(STDERR_FILENO, &status) == 0 && (uintmax_t)status.st_dev == errors_go_to.device &&
           (uintmax_t)status.st_ino == errors_go_to.file;
}

static void print_summary(enum hf_report_end end, pid_t process)
{
    uint64_t errors = hf_findings_count(HF_REPORT_ERROR);
    uint64_t warnings = hf_findings_count(HF_REPORT_WARNING);
    uint64_t blocks, bytes;
    struct hf_text text;
    if (privileged || quiet ||
        (errors + warnings == 0 && !(is_wanted() && (process == root || end == HF_REPORT_SIGNAL))))
        return;
    hf_counts_total(&blocks, &bytes);
    hf_text_begin(&text);
    hf_text_say(&text, "diagnosis of %sprocess %d: ", process != 0 ? "" : "a child of ",
                (int)(process != 0 ? process : (pid_t)hf_report_header()->parent));
    if (errors + warnings == 0)
        hf_text_say(&text, "%s %zu blocks",
                    hf_diagnose.mode == HF_REPORT_COUNT ? "counted" : "nothing wrong in",
                    (size_t)blocks);
    else
        hf_text_say(&text, "%zu error%s, %zu warning%s", (size_t)errors, errors == 1 ? "" : "s",
                    (size_t)warnings, warnings == 1 ? "" : "s");
    const uint64_t dropped = __atomic_load_n(&hf_report_header()->dropped, __ATOMIC_RELAXED);
    if (dropped != 0)
        hf_text_say(&text, "; %zu more events found no room in the report", (size_t)dropped);
    if (hf_report_path()[0] != '\0')
        hf_text_say(&text, "; 'homefree report %s' shows more", hf_diagnose.directory);
    hf_text_write(&text);
}

void hf_diagnose_end(enum hf_report_end end, int status)
{
    struct hf_report_header *header = hf_report_header();
    hf_report_notice_fork();
    if (!hf_report_is_own() || atomic_exchange(&ended, true))
        return;
    if (hf_findings_count(HF_REPORT_ERROR) + hf_findings_count(HF_REPORT_WARNING) != 0 ||
        hf_sites_count() - sites_before >= NEW_SITES)
        make_file();
    hf_timeline_end();
    header->ended = hf_clock(CLOCK_REALTIME_COARSE);
    header->status = (uint32_t)status;
    __atomic_store_n(&header->end, (uint32_t)end, __ATOMIC_RELEASE);
    print_summary(end, (pid_t)header->process);
    hf_report_finish();
}

void hf_diagnose_confine(void)
{
    if (hf_report_is_confined() || !hf_report_is_own())
        return;
    hf_sampling_stop();
    (void)hf_guarded_yield();
    hf_timeline_stop();
    make_file();
    wanted = is_wanted();
    hf_report_confine();
    hf_signals_confine();
}

void hf_diagnose_leave(int status)
{
    for (;;)
        (void)syscall(SYS_exit_group, status);
}

static void on_exit_status(int status, void *context)
{
    (void)context;
    if (hf_diagnose.leaks && hf_diagnose.mode != HF_REPORT_COUNT && hf_report_is_own() &&
        !hf_report_is_confined() && !atomic_load(&ended))
        hf_leaks_find(__builtin_frame_address(0));
    hf_diagnose_end(HF_REPORT_EXIT, status);
}

static void end_by_signal(int number)
{
    hf_diagnose_end(HF_REPORT_SIGNAL, number);
}

/* ---- the beginning ---- */

static void become_root(void)
{
    struct stat status;
    root = getpid();
    if (fstat(STDERR_FILENO, &status) == 0) {
        errors_go_to.device = status.st_dev;
        errors_go_to.file = status.st_ino;
    }
}

/* Whether a block may be sampled now. */
static bool can_sample(void)
{
    return hf_guarded_has_capacity() && hf_signals_see_accesses();
}

/* Priority 102: after libhomefree's own constructor. */
__attribute__((constructor(102))) static void start_diagnosis(void)
{
    privileged = getauxval(AT_SECURE) != 0;
    hf_report_begin();
    hf_counts_start();
    hf_sites_start();
    if (!privileged) {
        const char *options = getenv(HF_DIAGNOSE_VARIABLE);
        if (options != NULL)
            read_options(options);
        else
            choose_directory();
        const bool begins = root == 0;
        if (begins)
            become_root();
        if (begins || options == NULL)
            tell_children();
        if (sites_path[0] != '\0')
            read_sites();
        if (hf_diagnose.directory[0] != '\0' && mkdir(hf_diagnose.directory, 0700) != 0 &&
            errno != EEXIST) {
            warn("cannot make the report's directory ", hf_diagnose.directory, errno);
            hf_diagnose.directory[0] = '\0';
        }
    }
    if (hf_report_header() == NULL)
        return;
    fill_header(hf_report_header());
    make_file();
    (void)pthread_atfork(NULL, NULL, in_child);
    hf_report_on_fork(in_child);
    (void)on_exit(on_exit_status, NULL);
    hf_signals_start(end_by_signal);
    hf_timeline_start();
    if (hf_diagnose.mode != HF_REPORT_COUNT && sample_every != 0) {
        hf_signals_watch_accesses();
        hf_guarded_start(&hf_guarded_hosted, sample_every <= HF_SAMPLING_OFTEN);
        hf_sampling_start(sample_every, !sample_asked, can_sample);
    }
}
