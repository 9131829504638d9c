/*
 * What `homefree run` and `homefree doctor` make of files that are no programs, or damaged ones:
 * none crashes the examination or makes it wait, and scripts that lead to each other are followed a
 * bounded number of times. test_run.py compares verdicts with what the kernel does.
 *
 *   test-run-program SAMPLE
 */
#include "loader/command/program/privileges.h"
#include "loader/command/program/program.h"
#include "loader/command/program/script.h"

#include "random.h"
#include "scratch.h"
#include "suite.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *sample;
static struct hf_program program;

static void write_file(const void *bytes, size_t size)
{
    const int file = open(scratch_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(fchmod(file, 0700), 0);
    ck_assert_int_eq(write(file, bytes, size), (ssize_t)size);
    ck_assert_int_eq(close(file), 0);
}

static void assert_refused(enum hf_program_verdict verdict, const char *why)
{
    hf_program_examine(scratch_file, &program);
    ck_assert_msg(program.verdict == verdict, "verdict %d: %s", (int)program.verdict, program.why);
    ck_assert_msg(strstr(program.why, why) != NULL, "'%s' is not in: %s", why, program.why);
}

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* ---- first lines ---------------------------------------------------------------------------- */

START_TEST(first_lines)
{
    static const struct {
        const char *line, *interpreter, *argument;
    } cases[] = {
        {"#!/bin/sh\n", "/bin/sh", ""},
        {"#!/bin/sh", "/bin/sh", ""},
        {"#! \t /bin/sh \t \nrest", "/bin/sh", ""},
        {"#!/bin/sh -e -x \n", "/bin/sh", "-e -x"},
        {"#!relative\n", "relative", ""},
        {"#!/bin/sh\r\n", "/bin/sh\r", ""},
        {"#!\n/bin/sh\n", NULL, NULL},
        {"#!   \n", NULL, NULL},
        {"#!", NULL, NULL},
        {"#", NULL, NULL},
        {"", NULL, NULL},
        {" #!/bin/sh\n", NULL, NULL},
    };
    struct hf_script script;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool is = hf_script_read(cases[i].line, strlen(cases[i].line), &script);
        ck_assert_msg(is == (cases[i].interpreter != NULL), "%s", cases[i].line);
        if (is) {
            ck_assert_str_eq(script.interpreter, cases[i].interpreter);
            ck_assert_str_eq(script.argument, cases[i].argument);
        }
    }
    ck_assert(hf_script_read("#!/bin/sh\0x\n", 12, &script));
    ck_assert_str_eq(script.interpreter, "/bin/sh");
    ck_assert_str_eq(script.argument, "");
}
END_TEST

/* The kernel reads 256 bytes. An argument may be cut short, a name not. */
START_TEST(long_lines)
{
    char line[2 * HF_SCRIPT_LINE];
    struct hf_script script;
    memset(line, 'x', sizeof line);
    memcpy(line, "#!", 2);
    ck_assert(!hf_script_read(line, HF_SCRIPT_LINE, &script));
    line[100] = ' ';
    ck_assert(hf_script_read(line, HF_SCRIPT_LINE, &script));
    ck_assert_uint_eq(strlen(script.interpreter), 98);
    ck_assert_uint_eq(strlen(script.argument), HF_SCRIPT_LINE - 1 - 101);
    memset(line + 2, ' ', sizeof line - 2);
    ck_assert(!hf_script_read(line, HF_SCRIPT_LINE, &script));
}
END_TEST

START_TEST(arguments_of_env)
{
    static const struct {
        const char *argument;
        enum hf_script_env does;
        const char *command;
    } cases[] = {
        {"python3", HF_SCRIPT_ENV_RUNS, "python3"},
        {"python3 -u", HF_SCRIPT_ENV_RUNS, "python3 -u"}, /* one word, which env does not split */
        {"-S python3 -u", HF_SCRIPT_ENV_RUNS, "python3"},
        {"-vS python3", HF_SCRIPT_ENV_RUNS, "python3"},
        {"--split-string=A=1 -- x", HF_SCRIPT_ENV_RUNS, "--"},
        {"-S -u HOME -- A=1 python3", HF_SCRIPT_ENV_RUNS, "python3"},
        {"-S --unset=LD_PRELOADS -uX python3", HF_SCRIPT_ENV_RUNS, "python3"},
        {"-S -i python3", HF_SCRIPT_ENV_CLEARS, NULL},
        {"-", HF_SCRIPT_ENV_CLEARS, NULL},
        {"-S - python3", HF_SCRIPT_ENV_CLEARS, NULL},
        {"-S -u LD_PRELOAD python3", HF_SCRIPT_ENV_CLEARS, NULL},
        {"-S LD_PRELOAD=x python3", HF_SCRIPT_ENV_CLEARS, NULL},
        {"-S PATH=/x python3", HF_SCRIPT_ENV_UNKNOWN, NULL},
        {"-S -C /tmp python3", HF_SCRIPT_ENV_UNKNOWN, NULL},
        {"-S 'python3'", HF_SCRIPT_ENV_UNKNOWN, NULL},
        {"-S -u", HF_SCRIPT_ENV_UNKNOWN, NULL},
        {"", HF_SCRIPT_ENV_NOTHING, NULL},
        {"A=1", HF_SCRIPT_ENV_NOTHING, NULL},
        {"-S", HF_SCRIPT_ENV_NOTHING, NULL},
    };
    char command[HF_SCRIPT_LINE];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum hf_script_env does = hf_script_env(cases[i].argument, command);
        ck_assert_msg(does == cases[i].does, "'%s': %d", cases[i].argument, (int)does);
        if (does == HF_SCRIPT_ENV_RUNS)
            ck_assert_str_eq(command, cases[i].command);
    }
}
END_TEST

START_TEST(random_lines)
{
    static const char alphabet[] = "#!/ \t\n\0-S=enviux\"$";
    char line[HF_SCRIPT_LINE], command[HF_SCRIPT_LINE];
    struct hf_script script;
    random_state = 1;
    for (int round = times(200000); round > 0; round--) {
        const size_t size = random_below(sizeof line + 1);
        for (size_t i = 0; i < size; i++)
            line[i] = i < 2 ? "#!"[i] : alphabet[random_below(sizeof alphabet - 1)];
        if (hf_script_read(line, size, &script)) {
            ck_assert_uint_lt(strlen(script.interpreter) + strlen(script.argument), sizeof line);
            (void)hf_script_env(script.argument, command);
        }
    }
}
END_TEST

/* ---- capabilities --------------------------------------------------------------------------- */

START_TEST(damaged_capabilities)
{
    unsigned char attribute[64] = {0};
    random_state = 1;
    ck_assert(!hf_privileges_by_attribute(attribute, 0));
    for (int round = times(20000); round > 0; round--) {
        for (size_t i = 0; i < sizeof attribute; i++)
            attribute[i] = (unsigned char)random_next();
        attribute[3] = (unsigned char)random_below(5); /* the revision */
        (void)hf_privileges_by_attribute(attribute, random_below(sizeof attribute));
    }
    static const unsigned char effective[20] = {1, 0, 0, 2, 0, 4}, nothing[20] = {0, 0, 0, 2};
    ck_assert(hf_privileges_by_attribute(effective, sizeof effective));
    ck_assert(!hf_privileges_by_attribute(nothing, sizeof nothing));
    ck_assert(!hf_privileges_by_attribute(effective, sizeof effective - 1));
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

START_TEST(not_programs)
{
    assert_refused(HF_PROGRAM_BROKEN, "No such file");
    write_file("", 0);
    assert_refused(HF_PROGRAM_BROKEN, "neither an ELF file nor a script");
    write_file("echo hello\n", 11);
    assert_refused(HF_PROGRAM_BROKEN, "neither an ELF file nor a script");
    write_file("\177ELF", 4);
    assert_refused(HF_PROGRAM_BROKEN, "ends within the ELF header");
    ck_assert_int_eq(chmod(scratch_file, 0600), 0);
    assert_refused(HF_PROGRAM_BROKEN, "Permission denied");
    ck_assert_int_eq(unlink(scratch_file), 0);
    ck_assert_int_eq(mkfifo(scratch_file, 0700), 0);
    assert_refused(HF_PROGRAM_BROKEN, "Permission denied");
    ck_assert_int_eq(unlink(scratch_file), 0);
    ck_assert_int_eq(symlink(scratch_file, scratch_file), 0);
    assert_refused(HF_PROGRAM_BROKEN, "symbolic links");

    hf_program_examine(scratch_directory, &program);
    ck_assert_str_eq(program.why, "Is a directory");
    hf_program_examine("", &program);
    ck_assert_str_eq(program.why, "No such file or directory");
    char *name = calloc(1, 3 * PATH_MAX);
    memset(name, 'x', 3 * PATH_MAX - 1);
    hf_program_examine(name, &program);
    ck_assert_str_eq(program.why, "File name too long");
    name[0] = '/';
    hf_program_examine(name, &program);
    ck_assert_str_eq(program.why, "File name too long");
    setenv("PATH", name, 1); /* a directory with such a name is passed over */
    hf_program_examine("sh", &program);
    ck_assert_str_eq(program.why, "no directory of PATH has it");
    free(name);
}
END_TEST

START_TEST(circles)
{
    char line[256];
    snprintf(line, sizeof line, "#!%s\n", scratch_file);
    write_file(line, strlen(line));
    assert_refused(HF_PROGRAM_BROKEN, "too many scripts");
    setenv("PATH", scratch_directory, 1);
    snprintf(line, sizeof line, "#!/usr/bin/env %s\n", strrchr(scratch_file, '/') + 1);
    write_file(line, strlen(line));
    assert_refused(HF_PROGRAM_BROKEN, "too many scripts start each other with env");
    write_file("#!/usr/bin/env\n", 15);
    assert_refused(HF_PROGRAM_BROKEN, "no command");
    write_file("#!/usr/bin/env -S -i sh\n", 24);
    assert_refused(HF_PROGRAM_UNFIT, "LD_PRELOAD");
    write_file("#!/usr/bin/env no-such-command\n", 31);
    assert_refused(HF_PROGRAM_BROKEN, "'no-such-command': No such file");
    write_file("#!/no/such/interpreter\n", 23);
    assert_refused(HF_PROGRAM_BROKEN, "its interpreter '/no/such/interpreter': No such file");
}
END_TEST

/* A header of each kind that homefree cannot serve. */
START_TEST(other_machines)
{
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
#if defined __aarch64__
        .e_machine = EM_AARCH64,
#else
        .e_machine = EM_X86_64,
#endif
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
    };
    const Elf64_Ehdr good = header;
    write_file(&header, sizeof header);
    assert_refused(HF_PROGRAM_UNFIT, "linked statically");
    header.e_type = ET_REL;
    write_file(&header, sizeof header);
    assert_refused(HF_PROGRAM_BROKEN, "no program");
    header = good;
    header.e_machine = header.e_machine == EM_X86_64 ? EM_AARCH64 : EM_X86_64;
    write_file(&header, sizeof header);
    assert_refused(HF_PROGRAM_UNFIT, "different machine");
    header = good;
    header.e_ident[EI_CLASS] = ELFCLASS32;
    write_file(&header, sizeof header);
    assert_refused(HF_PROGRAM_UNFIT, "32-bit");
    header = good;
    header.e_phnum = UINT16_MAX;
    write_file(&header, sizeof header);
    assert_refused(HF_PROGRAM_BROKEN, "program headers");
}
END_TEST

/* ---- damaged programs ----------------------------------------------------------------------- */

/* Of a shared object, which is refused as it is, and of a program. */
START_TEST(damaged_programs)
{
    size_t size, fitting = 0, refused = 0;
    unsigned char *original = read_file(_i == 0 ? sample : "/bin/true", &size);
    const Elf64_Ehdr *header = (const void *)original;
    const size_t heads = header->e_phoff + (size_t)header->e_phnum * sizeof(Elf64_Phdr);
    unsigned char *copy = malloc(size);
    random_state = 2 * (unsigned)_i + 1;
    for (int round = times(4000); round > 0; round--) {
        memcpy(copy, original, size);
        for (uint64_t changes = 1 + random_below(4); changes > 0; changes--) {
            const size_t width = (size_t)1 << random_below(4);
            const size_t at = random_below((random_below(4) == 0 ? size : heads) - width);
            const uint64_t value = random_below(2) == 0 ? random_next() : random_below(size);
            memcpy(copy + at, &value, width);
        }
        write_file(copy, random_below(8) == 0 ? random_below(size) : size);
        hf_program_examine(scratch_file, &program);
        fitting += program.verdict == HF_PROGRAM_FITS;
        refused += program.verdict != HF_PROGRAM_FITS;
        ck_assert(program.verdict == HF_PROGRAM_FITS || program.why[0] != '\0');
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert(_i == 0 || fitting > 0);
    free(copy);
    free(original);
}
END_TEST

/* Each length to which a small program can be cut. */
START_TEST(cut_programs)
{
    size_t size;
    unsigned char *original = read_file(sample, &size);
    for (size_t length = 0; length < size; length += (size_t)(4001 / times(4000))) {
        write_file(original, length);
        hf_program_examine(scratch_file, &program);
        ck_assert_int_ne(program.verdict, HF_PROGRAM_FITS);
    }
    free(original);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&sample);
    TCase *tcase =
        NEW_CASE("program", first_lines, long_lines, arguments_of_env, random_lines,
                 damaged_capabilities, not_programs, circles, other_machines, cut_programs);
    tcase_add_checked_fixture(tcase, make_scratch, remove_scratch);
    tcase_add_loop_test(tcase, damaged_programs, 0, 2);
    return RUN_CASES("program", tcase);
}
