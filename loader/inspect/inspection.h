/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result of an inspection: the types that inspect.h returns and that the files of inspect fill.
 * The caller of hf_inspect() owns a result; no lock guards it.
 */
#ifndef HOMEFREE_LOADER_INSPECT_INSPECTION_H
#define HOMEFREE_LOADER_INSPECT_INSPECTION_H

#include "loader/elf/elf_file.h"
#include "loader/foreign/known_allocators.h"

#define HF_INSPECTION_STRING_MAX  1024
#define HF_INSPECTION_PATHS_MAX   1024
#define HF_INSPECTION_NAMES_MAX   5 /* names that a finding shows, of all that it counts */
#define HF_INSPECTION_MEMBERS_MAX 16

/* The static TLS that glibc reserves for libraries that are loaded late: 512 bytes by default (the
 * tunable glibc.rtld.optional_static_tls), and 1152 bytes reserved for namespaces and auditing
 * modules, which any library can use (elf/dl-tls.c, 2.33 to 2.41). Measured on 2.36: an object with
 * 1680 to 1712 bytes loads into a fresh CPython, one with 1552 after torch. */
#define HF_STATIC_TLS_LATE     1664
#define HF_STATIC_TLS_OPTIONAL 512

enum hf_severity { HF_SEVERITY_NOTE, HF_SEVERITY_WARNING, HF_SEVERITY_ERROR };

#define HF_RULE(id, name, severity, explanation, remedy) HF_RULE_##id,
enum hf_rule {
#include "loader/inspect/rules.def"
    HF_RULE_COUNT
};
#undef HF_RULE

struct hf_rule_text {
    const char *name;
    enum hf_severity severity;
    const char *explanation, *remedy;
};
extern const struct hf_rule_text hf_rules[HF_RULE_COUNT];

const char *hf_severity_name(enum hf_severity severity); /* "note", "warning", "error" */

struct hf_inspection_finding {
    size_t rule;         /* its place among the rules: an enum hf_rule */
    const char *message; /* one sentence about this file, without a full stop */
    const char *names[HF_INSPECTION_NAMES_MAX];
    size_t names_count, count; /* names shown; names found */
};

struct hf_inspection_allocator {
    enum hf_allocator allocator;
    bool by_string;       /* identified by a string in its data, not by a symbol */
    bool exported;        /* the symbol is visible to other objects */
    bool published;       /* it is a member of the registry */
    const char *evidence; /* the symbol or the string */
    const char *prefix;   /* prefix of its functions' names: "je_arrow_", "" */
};

/* An allocator that the file publishes in the registry (include/allocator_registry.h). The texts
 * but for its name and release are static. */
struct hf_inspection_member {
    const char *name, *release; /* release: or NULL */
    const char *offers[6];      /* the functions that it has of those that a member may leave out */
    const char *flags[5];       /* "TELLS_FIRST" */
    size_t offers_count, flags_count;
};

enum hf_inspection_library_state {
    HF_LIBRARY_USED,
    HF_LIBRARY_UNUSED,
    HF_LIBRARY_NOT_FOUND, /* nothing is known about it, which differs from unused */
    HF_LIBRARY_NOT_ASKED,
};
struct hf_inspection_library {
    const char *name;
    const char *path; /* the file that was read, or NULL */
    enum hf_inspection_library_state state;
};

enum hf_inspection_kind {
    HF_KIND_SHARED_OBJECT,
    HF_KIND_PROGRAM, /* position-independent or not */
    HF_KIND_OTHER,   /* an object file, a core, a debug file, another machine's file */
};

/* Where files are, and what is asked of them. Those that are not in the file system, such as the
 * members of an archive, have paths below a root, which begin with HF_INSPECTION_ROOT and have no
 * "." or ".." in them. */
#define HF_INSPECTION_ROOT "//"
struct hf_inspection_files {
    /* Opens a file by its path: 0, -ENOENT, or another negative errno of hf_elf_open(). NULL: all
     * are in the file system. */
    int (*open)(struct hf_elf *elf, const char *path, const void *context);
    const void *context;
    /* The directory whose file system all paths are of, if not this process's. */
    bool in_root;
    int root;
    /* Whether an object uses a library that it needs is not asked, for which all symbols of the
     * library are looked at: of one that a hundred small modules need, a hundred times. */
    bool without_use;
};

/* Opens a path as hf_elf_open() does, but where `files` says; NULL: in the file system. */
int hf_inspection_open(struct hf_elf *elf, const char *path,
                       const struct hf_inspection_files *files);

struct hf_inspection {
    const char *why; /* after a failure: one line; a static string */
    const char *path;
    enum hf_inspection_kind kind;
    const char *machine; /* "x86-64", "aarch64", or "unknown" */
    const char *soname;  /* or NULL */
    const char *module;  /* a Python module: the name after PyInit_ or PyModExport_; or NULL */
    size_t imports, exports;
    uint64_t tls_size;
    bool tls_static;
    uint64_t tls_needed;     /* static TLS of the libraries that are loaded with it */
    const char *tls_largest; /* the library with the largest share, as it is needed; or NULL */

    bool homefree_itself;        /* the file is a libhomefree */
    bool homefree_linked;        /* the file needs libhomefree */
    const char *homefree_needed; /* the newest version node that it needs, or NULL */
    const char *glibc_needed;    /* the newest version of glibc's, "2.34"; or NULL */

    /* The functions that it imports and that hand out or take back memory of libc or of the C++
     * runtime: malloc, operator new, strdup. */
    const char *allocating[HF_INSPECTION_NAMES_MAX];
    size_t allocating_kept, allocating_count; /* names kept; names found */

    struct hf_inspection_library *libraries;
    size_t libraries_count;
    /* The libraries that were read, on which the findings depend, too, and the paths at which one
     * would have been preferred, and was not. */
    const char **read, **missed;
    size_t read_count, missed_count;
    bool read_all; /* all that are loaded with it, but those that are always there */
    struct hf_inspection_allocator allocators[HF_ALLOCATOR_COUNT];
    size_t allocators_count;
    struct hf_inspection_member members[HF_INSPECTION_MEMBERS_MAX];
    size_t members_count;
    struct hf_inspection_finding
        findings[HF_RULE_COUNT + HF_ALLOCATOR_COUNT + HF_INSPECTION_MEMBERS_MAX];
    size_t findings_count;

    const struct hf_inspection_files *files; /* private, like the rest */
    struct hf_inspection_memory *memory;
};

/* Frees what an inspection points to. */
void hf_inspection_free(struct hf_inspection *inspection);

#endif
