/*
 * What an inspection finds: the types that inspect.h hands out, and that the parts of inspect fill.
 */
#ifndef HOMEFREE_INSPECTION_H
#define HOMEFREE_INSPECTION_H

#include "loader/elf/elf_file.h"
#include "loader/foreign/known_allocators.h"

#define HF_INSPECTION_STRING_MAX 1024
#define HF_INSPECTION_NAMES_MAX  5 /* names that a finding shows, of all that it counts */

/* What glibc keeps for libraries that come late: 512 bytes by default (the tunable
 * glibc.rtld.optional_static_tls) and 1152 that namespaces and auditing modules do not use, which
 * every library can take (elf/dl-tls.c, 2.33 to 2.41; measured on 2.36: an object with 1680 to
 * 1712 bytes loads into a fresh CPython, 1552 after torch). */
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
    enum hf_rule rule;
    const char *message; /* one sentence about this file, without a full stop */
    const char *names[HF_INSPECTION_NAMES_MAX];
    size_t names_count, count; /* names shown; how many there are */
};

struct hf_inspection_allocator {
    enum hf_allocator allocator;
    bool by_string;       /* recognised by what its data holds, not by a symbol */
    bool exported;        /* the symbol is visible to other objects */
    const char *evidence; /* the symbol or the string */
    const char *prefix;   /* of its functions' names: "je_arrow_", "" */
};

enum hf_inspection_library_state {
    HF_LIBRARY_USED,
    HF_LIBRARY_UNUSED,
    HF_LIBRARY_NOT_FOUND, /* nothing known about it; not the same as unused */
};
struct hf_inspection_library {
    const char *name;
    const char *path; /* where it was looked into, or NULL */
    enum hf_inspection_library_state state;
};

enum hf_inspection_kind {
    HF_KIND_SHARED_OBJECT,
    HF_KIND_PROGRAM, /* position-independent or not */
    HF_KIND_OTHER,   /* an object file, a core, a debug file, another machine's file */
};

struct hf_inspection {
    const char *why; /* after failure: in one line; static */
    const char *path;
    enum hf_inspection_kind kind;
    const char *machine; /* "x86-64", "aarch64", or "unknown" */
    const char *soname;  /* or NULL */
    const char *module;  /* a Python module: the name after PyInit_; otherwise NULL */
    size_t imports, exports;
    uint64_t tls_size;
    bool tls_static;
    uint64_t tls_needed;     /* static TLS of the libraries that are loaded with it */
    const char *tls_largest; /* the one that takes most of that, as it is needed; or NULL */

    bool homefree_itself;        /* it is a libhomefree */
    bool homefree_linked;        /* it needs one */
    const char *homefree_needed; /* the newest version node that it needs, or NULL */

    struct hf_inspection_library *libraries;
    size_t libraries_count, libraries_unseen; /* unseen: beyond what is looked at */
    struct hf_inspection_allocator allocators[HF_ALLOCATOR_COUNT];
    size_t allocators_count;
    struct hf_inspection_finding findings[HF_RULE_COUNT + HF_ALLOCATOR_COUNT];
    size_t findings_count;

    struct hf_inspection_memory *memory; /* private */
};

/* Frees what an inspection points to. */
void hf_inspection_free(struct hf_inspection *inspection);

#endif
