/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/interpreters/value.h - what crosses between C and a Python interpreter.
 *
 * A value is an argument or a result of a call into an interpreter: something simple, a container
 * of values, memory that is used by reference, a pickle, or the exception that Python raised. Who
 * calls what is in homefree/interpreters.h, whose rules hold here.
 */
#ifndef HOMEFREE_INTERPRETERS_VALUE_H
#define HOMEFREE_INTERPRETERS_VALUE_H

#include <homefree/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_release; /* homefree/deleter.h */

/* What a struct hf_value is. */
enum hf_value_kind {
    HF_VALUE_NONE = 0,   /* None */
    HF_VALUE_BOOL = 1,   /* as.truth */
    HF_VALUE_INT = 2,    /* as.integer; integers that do not fit are HF_VALUE_PICKLE */
    HF_VALUE_FLOAT = 3,  /* as.real */
    HF_VALUE_TEXT = 4,   /* as.text, count bytes of UTF-8; in results also a NUL, in arguments a
                            count of 0 means: up to the NUL */
    HF_VALUE_BYTES = 5,  /* as.bytes, count bytes: a copy */
    HF_VALUE_LIST = 6,   /* as.items, count values */
    HF_VALUE_TUPLE = 7,  /* as.items, count values */
    HF_VALUE_MEMORY = 8, /* as.memory: the memory of an object with a buffer, not a copy */
    HF_VALUE_PICKLE = 9, /* as.items, count values: a pickle (HF_VALUE_BYTES), and the memory that
                            it leaves out (HF_VALUE_MEMORY each) */
    HF_VALUE_ERROR = 10  /* as.error: Python raised an exception */
};

/* An argument or a result. */
struct hf_value {
    enum hf_value_kind kind;
    size_t count; /* see the kinds */
    union {
        int truth;
        int64_t integer;
        double real;
        const char *text;
        const void *bytes;
        struct hf_value *items;
        struct hf_memory *memory;
        struct hf_error *error;
    } as;
};

/*
 * Memory that is used by reference.
 *
 * In a result, `keeper` holds the memory. What a NumPy array has allocated on the heap
 * (homefree/host.h, hf_python_share()) outlives the array and its interpreter; the array moves to
 * other memory if it is resized meanwhile. Memory that was an argument has that argument's keeper.
 * Anything else is an object's that has a buffer: its interpreter is not ended before whoever drops
 * the keeper last.
 *
 * In an argument, which is a memoryview, Python holds `keeper` for as long as it uses the memory;
 * without one, the memory must outlive every interpreter that it was given to.
 */
struct hf_memory {
    void *pointer;
    size_t bytes;
    const char *format; /* as Python's struct module says; NULL: unsigned bytes */
    size_t item_size;   /* bytes; 0: 1 */
    int dimensions;     /* 0: one, of bytes / item_size items */
    const int64_t *shape;
    const int64_t *strides; /* bytes; NULL: row by row, without gaps */
    bool read_only;
    struct hf_release *keeper;
};

/* An exception, as text. */
struct hf_error {
    const char *type;      /* such as "ValueError", or "package.Type" */
    const char *message;   /* str() of it */
    const char *traceback; /* what Python would have printed */
};

/*
 * Frees what a result consists of, and drops the keepers of its memory. It becomes HF_VALUE_NONE.
 *
 * Parameters:
 *   value  in/out: a result of a function of homefree/interpreters.h; NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: what value points to, but not value itself.
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
HF_API void hf_value_clear(struct hf_value *value);

#ifdef __cplusplus
}
#endif
#endif
