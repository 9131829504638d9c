/*
 * A running process, seen through /proc: `homefree doctor --pid` and `homefree report --pid`. An
 * input is what /proc/PID/maps shows (environ, stat and status show the same text), two newlines,
 * and the memory from address 0 on, which ends with zeros. There are no files, so objects are put
 * together from memory.
 *
 * However hostile the process is, the record that is made of it has no bytes but those of its
 * format.
 */
#include "fuzz.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/report/report_live.h"

#include "loader/command/live/live_process.c"

enum { MEMORY = 1 << 16 };

static void open_directory(struct hf_live_process *process)
{
    static const struct fuzz_link links[] = {
        {"maps", 0}, {"environ", 0}, {"stat", 0}, {"status", 0}};
    static int directory = -1;
    if (directory < 0)
        directory = open(fuzz_directory(links, sizeof links / sizeof links[0]),
                         O_PATH | O_DIRECTORY | O_CLOEXEC);
    process->directory = directory;
}

static void read_texts(struct hf_live_process *process)
{
    char value[64];
    struct kind kind;
    (void)read_kind(process, &kind);
    (void)read_leader(process);
    if (hf_live_variable(process, "PATH", value, sizeof value))
        ck_assert_uint_lt(strlen(value), sizeof value);
    ck_assert(read_mappings(process));
    for (size_t i = 0; i < process->mappings_count; i++) {
        ck_assert_uint_lt(process->mappings[i].start, process->mappings[i].end);
        ck_assert_uint_lt(strlen(process->mappings[i].path), SIZE_MAX);
    }
}

static void make_record(const struct hf_live_process *process)
{
    const char *why;
    char bytes[4096];
    ssize_t got;
    const int descriptor = hf_doctor_live_record(process, &why);
    if (descriptor < 0) {
        ck_assert_ptr_nonnull(why);
        return;
    }
    ck_assert_int_eq(lseek(descriptor, 0, SEEK_SET), 0);
    while ((got = read(descriptor, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < got; i++)
            ck_assert(bytes[i] == '\t' || bytes[i] == '\n' || (bytes[i] > ' ' && bytes[i] < 0x7f));
    close(descriptor);
}

static void see_pages(void *context, const char *allocator, const char *object, uint64_t start,
                      uint64_t end)
{
    (void)context;
    ck_assert_uint_gt(strlen(allocator), 0);
    ck_assert_ptr_nonnull(object);
    ck_assert_uint_lt(start, end);
}

static void read_heap(const struct hf_live_process *process)
{
    struct hf_live_heap heap;
    const char *why;
    if (!hf_doctor_live_heap(process, see_pages, NULL, NULL, &heap, &why))
        ck_assert_ptr_nonnull(why);
}

static void look_at_sample(void *context, const struct hf_live_sample *sample)
{
    ck_assert(sample->frames_count <= HF_BOOK_FRAMES_MAX && sample->weight_blocks >= 1);
    uint64_t sum = strlen(sample->object);
    for (size_t i = 0; i < sample->frames_count; i++)
        sum += sample->frames[i];
    for (size_t i = 0; i < sample->python_count; i++)
        sum += strlen(sample->python[i].function) + strlen(sample->python[i].file);
    *(uint64_t *)context += sum;
}

static void read_profile(const struct hf_live_process *process)
{
    struct hf_live_profiled profiled;
    volatile uint64_t sum = 0;
    const char *why;
    if (!hf_doctor_live_profile(process, look_at_sample, (void *)(uintptr_t)&sum, &profiled, &why))
        ck_assert_ptr_nonnull(why);
}

static void make_report(const struct hf_live_process *process)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_merged merged;
    hf_merged_begin(&merged, &keep);
    (void)hf_report_read_live("fuzz", &merged, process);
    hf_keep_release(&keep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part rest = {data, size};
    const struct fuzz_part text = fuzz_take(&rest, "\n\n");
    struct hf_live_process process = {
        .pid = 1, .directory = -1, .root = -1, .root_is_ours = true, .deadline = INT64_MAX};
    open_directory(&process);
    (void)fuzz_file(0, text.data, text.size);
    (void)fuzz_file(1, rest.data, rest.size);
    process.memory = fuzz_descriptor(1);
    if (rest.size < MEMORY)
        ck_assert_int_eq(ftruncate(process.memory, MEMORY), 0);
    read_texts(&process);
    make_record(&process);
    read_heap(&process);
    read_profile(&process);
    make_report(&process);
    process.directory = process.memory = -1; /* they stay open */
    hf_live_close(&process);
    return 0;
}
