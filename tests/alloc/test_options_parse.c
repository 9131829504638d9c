/* HOMEFREE_CONF's parser handles every option at and beyond its limits, suffixes, empty items
 * and hostile strings. It ignores an invalid item and names it in one line. */
#include "alloc/base/options_parse.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A child parses `text` over the defaults and must then find `expected` in `field`. */
struct expectation {
    const char *text;
    size_t field; /* offset in struct hf_options */
    uint64_t expected;
};

static void parse(void *context)
{
    const struct expectation *e = context;
    struct hf_options options = hf_options;
    hf_options_parse(e->text, &options);
    uint64_t got;
    memcpy(&got, (char *)&options + e->field, sizeof got);
    must(got == e->expected);
    /* Every other field has kept its default. */
    memcpy((char *)&options + e->field, (char *)&hf_options + e->field, sizeof got);
    must(memcmp(&options, &hf_options, sizeof options) == 0);
}

static void accepted(const char *text, size_t field, uint64_t expected)
{
    struct expectation e = {text, field, expected};
    assert_succeeds(outcome_of_call(parse, &e));
}

/* The text is refused with one line that names the key and contains `part`; the default stays. */
static void refused(const char *text, size_t field, const char *key, const char *part)
{
    struct expectation e = {text, field, 0};
    memcpy(&e.expected, (const char *)&hf_options + field, sizeof e.expected);
    assert_exited(outcome_of_call(parse, &e), 0, 1, "homefree: HOMEFREE_CONF: ", key, part);
}

#define FIELD(name) offsetof(struct hf_options, name)

struct row {
    const char *name, *type;
    size_t field;
    uint64_t preset, minimum, maximum;
};

static const struct row rows[] = {
#define HF_OPTION(name, type, preset, minimum, maximum, unit, help) \
    {#name, #type, FIELD(name), preset, minimum, maximum},
#include "alloc/base/options.def"
#undef HF_OPTION
};
#define ROWS (sizeof rows / sizeof rows[0])

START_TEST(the_table_is_sound)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct hf_option_row *row = hf_option_row(i);
        ck_assert_ptr_nonnull(row);
        ck_assert_str_eq(row->name, rows[i].name);
        ck_assert(row->minimum <= row->preset && row->preset <= row->maximum);
        ck_assert(row->help[0] != '\0' && row->unit[0] != '\0');
        uint64_t preset;
        memcpy(&preset, (char *)&hf_options + rows[i].field, sizeof preset);
        ck_assert_uint_eq(preset, row->preset);
    }
    ck_assert_ptr_null(hf_option_row(ROWS));
}
END_TEST

START_TEST(numbers_at_their_ends_and_beyond)
{
    char text[100];
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        if (strcmp(row->type, "size") != 0 && strcmp(row->type, "number") != 0)
            continue;
        snprintf(text, sizeof text, "%s:%" PRIu64, row->name, row->minimum);
        accepted(text, row->field, row->minimum);
        snprintf(text, sizeof text, "%s:%" PRIu64, row->name, row->maximum);
        accepted(text, row->field, row->maximum);
        snprintf(text, sizeof text, "%s:%" PRIu64, row->name, row->maximum + 1);
        refused(text, row->field, row->name, "is ignored");
        if (row->minimum > 0) {
            snprintf(text, sizeof text, "%s:%" PRIu64, row->name, row->minimum - 1);
            refused(text, row->field, row->name, "is ignored");
        }
        static const char *const wrong[] = {"",    "-1",  "+1",   "1x", "0x100000", "1 ",
                                            " 1",  "1.5", "1KK",  "K",  "on",       "1:1",
                                            "1KB", "1P",  "1e10", "１", "1\n",      "nan"};
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            snprintf(text, sizeof text, "%s:%s", row->name, wrong[k]);
            refused(text, row->field, row->name, "is ignored; it takes ");
        }
        refused(row->name, row->field, row->name, "value ''");
    }
}
END_TEST

START_TEST(suffixes_scale_sizes_only)
{
    static const struct {
        const char *text;
        uint64_t size, shift;
    } sizes[] = {{"region:32M", 32, 20},
                 {"region:32m", 32, 20},
                 {"region:65536K", 64, 20},
                 {"region:3g", 3, 30},
                 {"region:64T", 64, 40}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        accepted(sizes[i].text, FIELD(region), sizes[i].size << sizes[i].shift);
    refused("region:65T", FIELD(region), "region", "'65T'");
    refused("region:1", FIELD(region), "region", "it takes bytes from 16M to 64T");
    refused("dirty_decay_ms:1K", FIELD(dirty_decay_ms), "dirty_decay_ms", "'1K'");
}
END_TEST

START_TEST(overflow_is_no_number)
{
    static const char *const regions[] = {"region:18446744073709551616",
                                          "region:18446744073709551615",
                                          "region:99999999999999999999999999999999",
                                          /* These would wrap around, to 16 MiB and to 0. */
                                          "region:17592186044432M", "region:16777216T"};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        refused(regions[i], FIELD(region), "region", "is ignored");
    refused("hardened:18446744073709551617", FIELD(hardened), "hardened", "is ignored");
}
END_TEST

START_TEST(choices)
{
    static const struct {
        const char *text;
        size_t field;
        uint64_t value;
    } right[] = {{"thp:default", FIELD(thp), 0},
                 {"thp:always", FIELD(thp), 1},
                 {"thp:never", FIELD(thp), 2},
                 {"route:on", FIELD(route), 1},
                 {"route:off", FIELD(route), 0},
                 {"guess:on", FIELD(guess), 1},
                 {"guess:off", FIELD(guess), 0},
                 {"static_free:fatal", FIELD(static_free), 0},
                 {"static_free:ignore", FIELD(static_free), 1},
                 {"unknown_free:fatal", FIELD(unknown_free), 0},
                 {"unknown_free:leak", FIELD(unknown_free), 1}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        accepted(right[i].text, right[i].field, right[i].value);
    static const char *const wrong[] = {"thp:", "thp:1", "thp:Always", "thp:alway", "thp:alwayss"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(wrong[i], FIELD(thp), "thp", "default, always or never");
    refused("route:yes", FIELD(route), "route", "on or off");
    refused("static_free:on", FIELD(static_free), "static_free", "fatal or ignore");
    refused("unknown_free:ignore", FIELD(unknown_free), "unknown_free", "fatal or leak");
}
END_TEST

static void parse_patterns(void *unused)
{
    (void)unused;
    static const struct {
        const char *patterns, *path;
        bool adopted;
    } cases[] = {
        {"all", "/usr/lib/libany.so", true},
        {"none", "/usr/lib/libany.so", false},
        {"libany.so", "/usr/lib/libany.so", true},
        {"libany.so", "/usr/libany.so/other.so", false},
        {"libother*:libany*", "/usr/lib/libany.so.1", true},
        {"lib?ny.so", "/usr/lib/libany.so", true},
        {"lib[!a]ny.so", "/usr/lib/libany.so", false},
        {"*/vendor/*", "/opt/vendor/lib/libany.so", true},
        {"*/vendor/*", "/opt/vendors/lib/libany.so", false},
        {"/opt/vendor/libany.so", "/opt/vendor/libany.so", true},
        {":", "/usr/lib/libany.so", false},
        {"*a:b*", "/usr/lib/a:b", false},
        {"*a?b*", "/usr/lib/a:b", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[100];
        struct hf_options options = hf_options;
        snprintf(text, sizeof text, "adopt:%s", cases[i].patterns);
        if (cases[i].patterns[0] != ':')
            hf_options_parse(text, &options);
        must(hf_options_adopt(&options, cases[i].path) == cases[i].adopted);
    }
}

START_TEST(files_to_adopt)
{
    static char text[2 * HF_PATTERNS_MAX] = "adopt:";
    assert_succeeds(outcome_of_call(parse_patterns, NULL));
    refused("adopt:on", FIELD(adopt), "'on' of adopt", "none, all, or file patterns");
    refused("adopt:PATTERNS", FIELD(adopt), "'PATTERNS' of adopt", "is ignored");
    refused("adopt:", FIELD(adopt), "'' of adopt", "is ignored");
    refused("adopt::", FIELD(adopt), "':' of adopt", "is ignored");
    memset(text + 6, '*', sizeof text - 7);
    refused(text, FIELD(adopt), "of adopt", "is ignored");
}
END_TEST

static void parse_cuda(void *unused)
{
    (void)unused;
    struct hf_options options = hf_options;
    must(options.cuda == HF_FILE_NONE && options.cuda_path[0] == '\0');
    hf_options_parse("cuda:/opt/a directory/libcudart:1.so", &options);
    must(options.cuda == HF_FILE_PATH);
    must(strcmp(options.cuda_path, "/opt/a directory/libcudart:1.so") == 0);
    hf_options_parse("cuda:/b", &options);
    must(options.cuda == HF_FILE_PATH && strcmp(options.cuda_path, "/b") == 0);
    hf_options_parse("cuda:auto", &options);
    must(options.cuda == HF_FILE_NONE);
}

START_TEST(a_file)
{
    static char text[2 * HF_PATH_MAX] = "cuda:/";
    assert_succeeds(outcome_of_call(parse_cuda, NULL));
    static const char *const wrong[] = {"cuda:", "cuda:PATH", "cuda:libcudart.so.12",
                                        "cuda:./libcudart.so.12", "cuda: /libcudart.so"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(wrong[i], FIELD(cuda), "cuda", "auto, or an absolute path");
    memset(text + 6, 'a', sizeof text - 7);
    refused(text, FIELD(cuda), "of cuda", "is ignored");
}
END_TEST

START_TEST(items)
{
    accepted("", FIELD(hardened), hf_options.hardened);
    accepted(",,,", FIELD(hardened), hf_options.hardened);
    accepted(",hardened:3,,", FIELD(hardened), 3);
    accepted("hardened:3,hardened:4", FIELD(hardened), 4); /* the last one wins */
    refused("hardened:3x,,", FIELD(hardened), "hardened", "'3x'");
}
END_TEST

static void parse_several(void *unused)
{
    (void)unused;
    struct hf_options options = hf_options;
    hf_options_parse("region:32M,bad:1,hardened:2,thp:never,hardened:x,dirty_decay_ms:5", &options);
    must(options.region == 32 << 20);
    must(options.hardened == 2);
    must(options.thp == 2);
    must(options.dirty_decay_ms == 5);
}

START_TEST(what_is_right_counts_beside_what_is_wrong)
{
    assert_exited(outcome_of_call(parse_several, NULL), 0, 2, "unknown key 'bad'",
                  "'x' of hardened");
}
END_TEST

START_TEST(unknown_keys_are_named)
{
    static const char *const unknown[] = {"nonsense", "REGION", "regio", "regions", " region",
                                          "a b",
                                          /* Options that there once were. */
                                          "arenas", "muzzy_decay_ms", "tcache_max"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char text[100], named[100];
        snprintf(text, sizeof text, "%s:1", unknown[i]);
        snprintf(named, sizeof named, "unknown key '%s'", unknown[i]);
        /* The line lists the known keys. */
        refused(text, FIELD(region), named, "static_free");
    }
    refused("justaword", FIELD(region), "unknown key 'justaword'", "route");
    refused(":1", FIELD(region), "unknown key ''", "route");
}
END_TEST

START_TEST(hostile_strings_stay_one_line)
{
    static char text[200000];
    refused("evil\nhomefree fatal lie\r\033[2J\x7f:1", FIELD(region),
            "'evil?homefree fatal lie??[2J?'", "is ignored");
    refused("region:1\n2\033[31m", FIELD(region), "'1?2?[31m'", "of region");
    memset(text, 'a', sizeof text - 1);
    refused(text, FIELD(region), "unknown key 'aaaa", "' is ignored");
    text[100] = ':';
    refused(text, FIELD(region), "unknown key 'aaaa", "' is ignored");
    memcpy(text, "region:", 7);
    refused(text, FIELD(region), "value 'aaaa", "of region");
    memset(text, '%', sizeof text - 1);
    refused(text, FIELD(region), "unknown key '%%%%", "' is ignored");
    memset(text, ',', sizeof text - 1);
    accepted(text, FIELD(region), hf_options.region);
    memset(text, ':', sizeof text - 1);
    refused(text, FIELD(region), "unknown key ''", "' is ignored");
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_table_is_sound, numbers_at_their_ends_and_beyond,
                     suffixes_scale_sizes_only, overflow_is_no_number, choices, files_to_adopt,
                     a_file, items, what_is_right_counts_beside_what_is_wrong,
                     unknown_keys_are_named, hostile_strings_stay_one_line);
}
