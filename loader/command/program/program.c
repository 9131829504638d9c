/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See program.h. Owns the descriptor of the file that is being looked at.
 */
#include "loader/command/program/program.h"

#include "loader/command/program/privileges.h"
#include "loader/command/program/script.h"
#include "loader/elf/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined __x86_64__
enum { OWN_MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { OWN_MACHINE = EM_AARCH64 };
#else
#    error "unknown machine"
#endif

/* Commands that env starts, one after the other. */
enum { ENV_MAX = 16 };

/* The file that is examined. */
struct file {
    struct hf_program *program;
    const char *path;
    const char *subject; /* "" for the command itself, or how the line names an interpreter */
};

__attribute__((format(printf, 3, 4))) static void
decide(const struct file *file, enum hf_program_verdict verdict, const char *format, ...)
{
    struct hf_program *program = file->program;
    const size_t capacity = sizeof program->why;
    size_t used = 0;
    if (file->subject[0] != '\0')
        used = (size_t)snprintf(program->why, capacity, "%s '%.*s': ", file->subject, PATH_MAX,
                                file->path);
    va_list arguments;
    va_start(arguments, format);
    if (used < capacity)
        vsnprintf(program->why + used, capacity - used, format, arguments);
    va_end(arguments);
    program->verdict = verdict;
}

static void decide_error(const struct file *file, int error)
{
    decide(file, HF_PROGRAM_BROKEN, "%s", strerror(error));
}

/* A command that no directory of PATH has. */
static void decide_missing(const struct file *file, const char *command)
{
    const bool here = access(command, F_OK) == 0;
    decide(file, HF_PROGRAM_BROKEN, "no directory of PATH has it%s%s",
           here ? "; the file here is ./" : "", here ? command : "");
}

/* ---- finding -------------------------------------------------------------------------------- */

/* Whether execve(2) would accept the file: 0 or an errno, EISDIR for a directory. */
static int executable(const char *path, struct stat *status)
{
    if (stat(path, status) != 0)
        return errno;
    if (S_ISDIR(status->st_mode))
        return EISDIR;
    if (!S_ISREG(status->st_mode))
        return EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static bool search_goes_on(int error)
{
    return error == EACCES || error == EISDIR || error == ENOENT || error == ENOTDIR ||
           error == ESTALE || error == ENODEV || error == ETIMEDOUT;
}

/* Finds a command in PATH: 0 or an errno. */
static int search(const char *name, char path[static PATH_MAX])
{
    char usual[64];
    const char *at = getenv("PATH");
    if (at == NULL)
        at = confstr(_CS_PATH, usual, sizeof usual) <= sizeof usual ? usual : "/bin:/usr/bin";
    if (strlen(name) > NAME_MAX)
        return ENAMETOOLONG;
    for (int failure = ENOENT;;) {
        const size_t length = strcspn(at, ":");
        const int written = snprintf(path, PATH_MAX, "%.*s%s%s", (int)(length % PATH_MAX), at,
                                     length > 0 ? "/" : "", name);
        if (length < PATH_MAX && written < PATH_MAX) {
            struct stat status;
            const int error = executable(path, &status);
            if (error == 0 || !search_goes_on(error))
                return error;
            if (error == EACCES || error == EISDIR)
                failure = EACCES;
        }
        if (at[length] == '\0')
            return failure;
        at += length + 1;
    }
}

static int find(const char *name, char path[static PATH_MAX])
{
    if (strchr(name, '/') == NULL && name[0] != '\0')
        return search(name, path);
    if (strlen(name) >= PATH_MAX)
        return ENAMETOOLONG;
    memcpy(path, name, strlen(name) + 1);
    return 0;
}

/* ---- programs ------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool visit_malloc(const struct hf_elf_symbol *symbol, void *context)
{
    bool *found = context;
    *found = symbol->defined && strcmp(symbol->name, "malloc") == 0 &&
             (symbol->binding == STB_GLOBAL || symbol->binding == STB_WEAK ||
              symbol->binding == STB_GNU_UNIQUE) &&
             (symbol->visibility == STV_DEFAULT || symbol->visibility == STV_PROTECTED);
    return !*found;
}

/* Reads the path of the dynamic linker. Returns 0, -ENOENT if the program has none, or -ENOEXEC. */
static int read_interpreter(struct hf_elf *elf, char path[static PATH_MAX])
{
    Elf64_Phdr segment = {0};
    bool found = false;
    for (size_t cursor = 0; !found && hf_elf_segment(elf, &cursor, &segment);)
        found = segment.p_type == PT_INTERP;
    if (!found)
        return -ENOENT;
    if (segment.p_filesz < 2 || segment.p_filesz > PATH_MAX ||
        hf_elf_read(elf, segment.p_offset, path, segment.p_filesz) != 0 ||
        path[segment.p_filesz - 1] != '\0')
        return -ENOEXEC;
    return 0;
}

/* Whether the program needs a library whose name begins so. */
static bool needs(struct hf_elf *elf, const char *prefix)
{
    const char *name;
    for (size_t cursor = 0; (name = hf_elf_needed(elf, &cursor)) != NULL;)
        if (starts(name, prefix))
            return true;
    return false;
}

/* The sanitizer whose runtime has an allocator of its own and refuses to start, or crashes, behind
 * any other library; NULL if there is none. A runtime in the program itself comes first. */
static const char *sanitizer(struct hf_elf *elf)
{
    static const struct {
        const char *library, *name;
    } sanitizers[] = {
        {"libasan.so", "AddressSanitizer"},     {"libclang_rt.asan", "AddressSanitizer"},
        {"libhwasan.so", "HWAddressSanitizer"}, {"libclang_rt.hwasan", "HWAddressSanitizer"},
        {"libtsan.so", "ThreadSanitizer"},      {"libclang_rt.tsan", "ThreadSanitizer"},
    };
    for (size_t i = 0; i < sizeof sanitizers / sizeof sanitizers[0]; i++)
        if (needs(elf, sanitizers[i].library))
            return sanitizers[i].name;
    return NULL;
}

/* Decides by the dynamic linker, which is a part of its libc. */
static bool linker_fits(const struct file *file, const char *path)
{
    static const char glibc[] = "ld-linux";
    const char *name = basename(path);
    struct hf_elf elf;
    if (starts(name, "ld-musl-")) {
        decide(file, HF_PROGRAM_UNFIT, "it is built for musl, and libhomefree for glibc");
        return false;
    }
    const int result = hf_elf_open(&elf, path);
    if (result != 0) {
        decide(file, HF_PROGRAM_BROKEN, "its dynamic linker '%s' cannot be used: %s", path,
               elf.why != NULL && result != -ENOENT ? elf.why : strerror(-result));
        return false;
    }
    const char *soname = hf_elf_tag_string(&elf, DT_SONAME);
    const bool fits = starts(soname != NULL ? soname : name, glibc);
    hf_elf_close(&elf);
    if (!fits)
        decide(file, HF_PROGRAM_UNFIT,
               "it is built for another libc, whose dynamic linker is '%s', and libhomefree for "
               "glibc",
               path);
    return fits;
}

static void examine_opened(const struct file *file, struct hf_elf *elf)
{
    char linker[PATH_MAX];
    if (elf->header.e_machine != OWN_MACHINE) {
        decide(file, HF_PROGRAM_UNFIT, "it is built for a different machine than libhomefree");
        return;
    }
    if (elf->header.e_type != ET_EXEC && elf->header.e_type != ET_DYN) {
        decide(file, HF_PROGRAM_BROKEN, "an ELF file, but no program");
        return;
    }
    const int result = read_interpreter(elf, linker);
    if (result == -ENOEXEC) {
        decide(file, HF_PROGRAM_BROKEN, "a damaged program: its dynamic linker has no valid path");
        return;
    }
    if (result == -ENOENT) {
        /* glibc's dynamic linker is a command, too: it runs the program that its argument names. */
        const char *soname = hf_elf_tag_string(elf, DT_SONAME);
        if (soname == NULL || !starts(soname, "ld-linux"))
            decide(file, HF_PROGRAM_UNFIT,
                   "it is linked statically, so nothing can be preloaded into it");
        return;
    }
    if (needs(elf, "libc.musl-")) {
        decide(file, HF_PROGRAM_UNFIT, "it is built for musl, and libhomefree for glibc");
        return;
    }
    const char *own_allocator = sanitizer(elf);
    if (own_allocator != NULL) {
        decide(file, HF_PROGRAM_UNFIT,
               "it is built with %s, whose allocator must come first; build it without",
               own_allocator);
        return;
    }
    if (linker_fits(file, linker))
        (void)hf_elf_symbols(elf, HF_ELF_DYNSYM, visit_malloc, &file->program->own_malloc);
}

static void examine_elf(const struct file *file, int descriptor)
{
    struct hf_elf elf;
    const int result = hf_elf_open_descriptor(&elf, descriptor);
    if (result == 0) {
        file->program->own_malloc = false;
        examine_opened(file, &elf);
        hf_elf_close(&elf);
    } else if (result == -ENOTSUP) {
        decide(file, HF_PROGRAM_UNFIT, "it is built for a different machine than libhomefree: %s",
               elf.why);
    } else if (result == -ENOEXEC) {
        decide(file, HF_PROGRAM_BROKEN, "a damaged program: %s", elf.why);
    } else {
        decide_error(file, -result);
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

enum kind { DECIDED, PROGRAM, SCRIPT };

/* Looks at one file. A program is examined. */
static enum kind look(const struct file *file, struct hf_script *script)
{
    struct stat status;
    int error = executable(file->path, &status);
    if (error != 0) {
        decide_error(file, error);
        return DECIDED;
    }
    char head[HF_SCRIPT_LINE];
    ssize_t size = 0;
    const int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        error = errno;
    } else if (!S_ISREG(status.st_mode)) {
        error = EACCES; /* it is another file by now */
    } else {
        do
            size = pread(descriptor, head, sizeof head, 0);
        while (size < 0 && errno == EINTR);
        error = size < 0 ? errno : 0;
    }
    enum kind kind = DECIDED;
    const bool elf = error == 0 && size >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0;
    const bool text = error == 0 && !elf && hf_script_read(head, (size_t)size, script);
    /* The kernel ignores a script's own privileges. */
    const char *privileged = text ? NULL : hf_privileges_of(file->path, &status);
    if (privileged != NULL) {
        decide(file, HF_PROGRAM_UNFIT,
               "%s, so it runs with other privileges than its caller, and nothing can be preloaded "
               "into it",
               privileged);
    } else if (error != 0) {
        decide(file, HF_PROGRAM_BROKEN, "it cannot be read, and so not be examined: %s",
               strerror(error));
    } else if (elf) {
        kind = PROGRAM;
        examine_elf(file, descriptor);
    } else if (text) {
        kind = SCRIPT;
    } else {
        decide(file, HF_PROGRAM_BROKEN,
               "neither an ELF file nor a script that begins with '#!' and its interpreter");
    }
    if (descriptor >= 0)
        close(descriptor);
    return kind;
}

/*
 * Follows a file to the program that execve(2) would start. Returns whether that is env, started by
 * a script; it will then execute `next`.
 */
static bool follow(struct hf_program *program, const char *path, const char *subject,
                   char next[static HF_SCRIPT_LINE])
{
    struct hf_script script = {.interpreter = ""}, found;
    struct file file = {.program = program, .path = path, .subject = subject};
    for (int depth = 0;; depth++) {
        const enum kind kind = look(&file, &found);
        if (kind == SCRIPT && depth == HF_SCRIPT_DEPTH) {
            decide(&file, HF_PROGRAM_BROKEN, "too many scripts are each other's interpreters");
            return false;
        }
        if (kind != SCRIPT) {
            if (kind == DECIDED || program->verdict != HF_PROGRAM_FITS || depth == 0 ||
                strcmp(basename(script.interpreter), "env") != 0)
                return false;
            break;
        }
        script = found;
        file.path = script.interpreter;
        file.subject = "its interpreter";
    }
    switch (hf_script_env(script.argument, next)) {
    case HF_SCRIPT_ENV_RUNS:
        return true;
    case HF_SCRIPT_ENV_CLEARS:
        decide(&file, HF_PROGRAM_UNFIT, "env changes LD_PRELOAD there");
        break;
    case HF_SCRIPT_ENV_NOTHING:
        decide(&file, HF_PROGRAM_BROKEN, "it is given no command and would run the script again");
        break;
    case HF_SCRIPT_ENV_UNKNOWN:
        break; /* its command is not examined */
    }
    return false;
}

void hf_program_examine(const char *command, struct hf_program *out)
{
    char next[HF_SCRIPT_LINE], path[PATH_MAX];
    struct file file = {.program = out, .path = command, .subject = ""};
    out->verdict = HF_PROGRAM_FITS;
    out->own_malloc = false;
    out->why[0] = out->path[0] = '\0';
    int error = find(command, out->path);
    if (error == ENOENT && command[0] != '\0' && strchr(command, '/') == NULL) {
        decide_missing(&file, command);
        return;
    }
    if (error != 0) {
        decide_error(&file, error);
        return;
    }
    bool more = follow(out, out->path, "", next);
    file.subject = "its interpreter";
    file.path = next;
    for (int count = 0; more; count++) {
        error = find(next, path);
        if (error != 0) {
            decide_error(&file, error);
            return;
        }
        if (count == ENV_MAX) {
            decide(&file, HF_PROGRAM_BROKEN, "too many scripts start each other with env");
            return;
        }
        more = follow(out, path, "its interpreter", next);
    }
}
