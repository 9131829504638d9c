/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that a diagnosed process writes, and that `homefree report` reads. This is the only
 * description of the format. The process maps the file and stores into it, so that whatever it
 * recorded is there even if it is killed.
 *
 * The file is an array of chunks of HF_REPORT_CHUNK bytes. Chunk 0 is the header. Every other chunk
 * begins with a struct hf_report_chunk, which says what it holds; records of one type are numbered
 * from 0 in the order of the file, across the chunks of that type. A chunk of type 0 was never
 * used. All numbers have the machine's byte order; a reader on another machine sees the wrong magic
 * and refuses the file.
 *
 * The writer fills in a record before it counts it in `used`, so a reader may read a file at any
 * time. A reader must trust nothing: the file may be cut short, damaged or hostile.
 *
 * Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_REPORT_FORMAT_H
#define HOMEFREE_ALLOC_DIAGNOSE_REPORT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HF_REPORT_MAGIC   "HFREPORT"
#define HF_REPORT_VERSION 1
#define HF_REPORT_CHUNK   16384
/* The most chunks in a file: 128 MiB. */
#define HF_REPORT_CHUNKS_MAX 8192
/* A process's file is called PID-NUMBER.hfreport; NUMBER tells apart processes that had the same
 * process id. Other files of a report's directory are none of ours, but for HF_REPORT_INDEX. */
#define HF_REPORT_SUFFIX ".hfreport"
/* A file that the processes of a directory share. Each adds one byte when it asks for a file of its
 * own, so the file's size is their number. */
#define HF_REPORT_INDEX "index"
/* The most processes that write a file into one directory. */
#define HF_REPORT_PROCESSES_MAX 1000

/* What libhomefree-diagnose.so exports for `homefree report --pid`: a pointer to the records of its
 * process, which lie in memory as they do in a file; NULL: there are none. */
#define HF_REPORT_RECORDS_SYMBOL "hf_live_records"

/* The environment variable by which `homefree run` passes its options: key:value, separated by
 * commas. diagnose_options.def lists the keys. */
#define HF_DIAGNOSE_VARIABLE "HOMEFREE_DIAGNOSE"
/* The most bytes of a pair and of the whole value. The library adds a pair for its children. */
#define HF_DIAGNOSE_PAIR_MAX  1000
#define HF_DIAGNOSE_VALUE_MAX 2000

enum hf_report_mode { HF_REPORT_COUNT = 1, HF_REPORT_REPORT = 2, HF_REPORT_STRICT = 3 };

/* How a process ended, as far as it could say. */
enum hf_report_end {
    HF_REPORT_RUNS = 0, /* it runs, was killed, or called _exit(2) unseen */
    HF_REPORT_EXIT = 1,
    HF_REPORT_SIGNAL = 2,
    HF_REPORT_EXEC = 3
};

/* Chunk 0. */
struct hf_report_header {
    char magic[8]; /* HF_REPORT_MAGIC */
    uint32_t version;
    uint32_t mode;   /* enum hf_report_mode */
    uint32_t chunks; /* in use, the header included */
    uint32_t process, parent;
    uint32_t end;    /* enum hf_report_end */
    uint32_t status; /* exit status or signal number; only with `end` */
    uint32_t reserved;
    uint64_t started;      /* nanoseconds since 1970 */
    uint64_t ended;        /* the same; 0: unknown */
    uint64_t dropped;      /* events that found no room */
    char homefree[16];     /* the library's version */
    char host[64];         /* node name */
    uint32_t command_size; /* bytes of `command` in use */
    uint32_t reserved2;
    char command[4096]; /* /proc/self/cmdline: arguments, each ending with 0; may be cut short */
};

/* Types of chunks. */
enum hf_report_type {
    HF_REPORT_UNUSED = 0,
    HF_REPORT_STRINGS = 1,    /* bytes; see `string` below */
    HF_REPORT_OBJECTS = 2,    /* struct hf_report_object */
    HF_REPORT_SITES = 3,      /* struct hf_report_site */
    HF_REPORT_ALLOCATORS = 4, /* struct hf_report_allocator */
    HF_REPORT_FINDINGS = 5,   /* struct hf_report_finding */
    HF_REPORT_PAIRS = 6,      /* struct hf_report_pair */
    HF_REPORT_STACKS = 7,     /* struct hf_report_stack, each followed by its frames */
    HF_REPORT_SAMPLES = 8,    /* struct hf_report_sample */
    HF_REPORT_SUPPRESSED = 9, /* struct hf_report_suppressed */
    HF_REPORT_TYPES = 10
};

/* The first bytes of a chunk; the records follow at once. */
struct hf_report_chunk {
    uint32_t type;
    uint32_t used;  /* bytes behind this struct that hold records */
    uint32_t first; /* number of the first record; for strings and stacks, the number of bytes in
                       the earlier chunks of the type */
    uint32_t reserved;
};

/*
 * A `string` in the records below: 0 is unknown, otherwise 1 + the position of its first byte among
 * all bytes of strings. It ends with 0, and lies within one chunk.
 */

/* A loaded object. Object 0 stands for code that no object holds. */
struct hf_report_object {
    uint64_t base;       /* l_addr: address minus base is the address in the file */
    uint32_t path;       /* a string; of the program, by its file */
    uint32_t build_size; /* bytes of the build id; 0: none */
    uint8_t build[32];
};

/* Whether an object calls functions on behalf of Python code: libffi, or what holds a copy of it.
 * Its one call is every caller's, so the innermost Python frame belongs to a place there. */
static inline bool hf_report_calls_for_python(const char *path)
{
    static const char *const names[] = {"libffi.", "libffi-", "_ctypes.", "_cffi_backend."};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* A place in the code that calls a function of the malloc family. Site 0 is unknown. */
struct hf_report_site {
    uint64_t
        address;     /* the return address in the process, hence one byte or more behind the call */
    uint32_t object; /* number of the object */
    uint16_t function; /* enum hf_report_function */
    uint16_t flags;    /* reserved */
};

/* The functions, by the name that was called. report_functions.def lists them. */
enum hf_report_function {
#define HF_REPORT_FUNCTION(id, name) HF_FUNCTION_##id,
#include "alloc/diagnose/report_functions.def"
    HF_FUNCTION_COUNT
};

/* An allocator that owned a block. */
struct hf_report_allocator {
    uint32_t name;   /* a string: "heap", "libc", "jemalloc", … */
    uint32_t object; /* a string: path of the object that holds it; 0: unknown */
};

/* What was found, and how often. */
struct hf_report_finding {
    uint32_t rule;                         /* enum hf_report_rule */
    uint32_t allocator;                    /* 1 + number of the allocator; 0: unknown */
    uint32_t allocated_site;               /* 0: unknown */
    uint32_t freed_site;                   /* 0: unknown */
    uint32_t first_freed_site;             /* double-free: of the first free; use-after-free: of
                                              the free, and freed_site is of the access;
                                              otherwise 0 */
    uint32_t allocated_stack, freed_stack; /* 1 + position of a stack among all bytes of stacks;
                                              0: none. Of the first block whose stack is known, so
                                              allocated_stack may be filled in later */
    uint32_t first_freed_stack;            /* the same, of first_freed_site; often 0 */
    uint64_t count;
    uint64_t bytes;                /* sum of the blocks' requested sizes, where they are known */
    uint64_t pointer, asked, said; /* of the first one: the block, the size or alignment that was
                                      asked for, and the one that the free stated; 0: unknown.
                                      interpreter-leak: said is CPython's number of the first
                                      interpreter */
};

enum hf_report_rule {
#define HF_REPORT_RULE(ID, name, severity, explanation, without, remedy) HF_FAULT_##ID,
#include "alloc/diagnose/report_rules.def"
    HF_FAULT_COUNT
};

/* Blocks that one object allocated and another freed, or the same one; counted by each thread. */
struct hf_report_pair {
    uint16_t allocated; /* object */
    uint16_t freed;     /* object; HF_REPORT_ALLOCATED: counts what `allocated` has allocated */
    uint32_t threads;   /* that did so; 0: the record is not in use */
    uint64_t serial;    /* of the last such thread */
    uint64_t blocks;
    uint64_t bytes;
};
#define HF_REPORT_ALLOCATED 0xffff

/* A call stack, innermost frame first: `native` frames, then `python` frames. */
struct hf_report_stack {
    uint16_t native;
    uint16_t python;
    uint32_t reserved;
    /* struct hf_report_frame frames[native]; struct hf_report_line lines[python]; */
};
struct hf_report_frame {
    uint64_t address; /* as in a site */
    uint32_t object;
    uint32_t reserved;
};
struct hf_report_line {
    uint32_t file, function; /* strings */
    uint32_t line;
    uint32_t reserved;
};

/* A suppression that matched findings, which are not recorded. */
struct hf_report_suppressed {
    uint32_t pattern, why; /* strings */
    uint64_t count;
};

/* Live bytes of blocks that an object allocated, at a moment. */
struct hf_report_sample {
    uint64_t time; /* nanoseconds since the start */
    uint64_t bytes;
    uint32_t object;
    uint32_t reserved;
};

#endif
