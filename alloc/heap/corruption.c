/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends the process with one line that names the corruption which the front end found (front_end.h).
 * Owns nothing, takes no lock. Any thread, at any stage, inside the gate or outside.
 */
#include "alloc/base/fatal.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/front_end.h"

/* Leaves the gate first: a handler of SIGABRT may wait for a thread that forks, which waits until
 * the gate is empty. */
static __attribute__((noreturn)) void end(struct hf_text *text)
{
    hf_gate_abandon();
    hf_fatal(text);
}

void hf_heap_fatal_memory(void)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "fatal: no memory for a thread's own data; raise the limit on memory or "
                       "address space (ulimit -v), or run fewer threads");
    end(&text);
}

static const char *const calls[] = {"free", "realloc", "malloc_usable_size"};

/* ---- where a pointer lies ---- */

/* What to call the memory. */
struct where {
    bool space;
    int device; /* -1: the host */
};

static void add_where(struct hf_text *text, struct where where)
{
    if (where.device >= 0)
        hf_text_say(text, "homefree's memory of CUDA device %d", where.device);
    else
        hf_text_add(text, where.space ? "homefree's page-locked memory" : "homefree's heap");
}

static __attribute__((noreturn)) void corrupted(const void *ptr, const void *caller,
                                                enum hf_corruption purpose,
                                                enum hf_corruption_kind kind, struct where where)
{
    static const struct {
        const char *before, *after; /* the name of the memory */
    } facts[] = {
        [HF_CORRUPT_NO_BLOCK] = {"the pointer is inside ",
                                 ", but no block that is in use starts there: it was never "
                                 "allocated, or freed already"},
        [HF_CORRUPT_INSIDE] = {"the pointer is inside a block of ", ", not at its first byte"},
        [HF_CORRUPT_FREED] = {"the block of ", " is free already: double free"},
    };
    struct hf_text text;
    hf_text_begin_fatal(&text, calls[purpose], ptr);
    hf_text_add(&text, facts[kind].before);
    add_where(&text, where);
    hf_text_add(&text, facts[kind].after);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, where.space
                           ? "; going on would give the same memory out twice; free each block "
                             "once, by the pointer that its allocation returned"
                           : "; going on would give the same memory out twice; to see the first "
                             "free, link that code without homefree's shim and run it under "
                             "valgrind or with -fsanitize=address");
    end(&text);
}

void hf_heap_corrupted(const void *ptr, const void *caller, enum hf_corruption purpose,
                       enum hf_corruption_kind kind)
{
    corrupted(ptr, caller, purpose, kind, (struct where){false, -1});
}

void hf_space_corrupted(const void *ptr, const void *caller, enum hf_corruption purpose,
                        enum hf_corruption_kind kind, int device)
{
    corrupted(ptr, caller, purpose, kind, (struct where){true, device});
}

void hf_heap_overflowed(const void *ptr, const void *caller, enum hf_corruption purpose,
                        size_t asked)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, calls[purpose], ptr);
    hf_text_add(&text, "bytes behind the block of homefree's heap were overwritten");
    if (asked != SIZE_MAX)
        hf_text_say(&text, ": a write ran past the %zu bytes that were asked for", asked);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would use data that other code has overwritten; to see the "
                       "write, run the program under valgrind or with -fsanitize=address");
    end(&text);
}

void hf_heap_neighbour(const void *ptr, const void *neighbour, const void *caller)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, calls[HF_CORRUPT_IN_FREE], ptr);
    hf_text_say(&text,
                "bytes between the block of homefree's heap and its neighbour, %p, were "
                "overwritten: a write ran past an end of one of them",
                neighbour);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would use data that other code has overwritten; to see the "
                       "write, run the program under valgrind or with -fsanitize=address");
    end(&text);
}

void hf_heap_written_after_free(const void *block, size_t size, const void *at)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text,
                "fatal: a block of homefree's heap was written to after it was freed: %p, of "
                "%zu bytes, at its byte %zu; found before it was given out again; to see the "
                "write, run the program under valgrind or with -fsanitize=address",
                block, size, (size_t)((const char *)at - (const char *)block));
    end(&text);
}

void hf_heap_wrong_size(const void *ptr, const void *caller, size_t asked, size_t said)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, calls[HF_CORRUPT_IN_FREE], ptr);
    hf_text_say(&text,
                "the block of homefree's heap was allocated with %s%zu bytes and is freed as one "
                "of %zu",
                hf_checks_full ? "" : "at most ", asked, said);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; the two sides disagree about the object's type or length; look for a "
                       "delete through a pointer to a base class without a virtual destructor");
    end(&text);
}

void hf_heap_wrong_alignment(const void *ptr, const void *caller, size_t said)
{
    struct hf_text text;
    hf_text_begin_fatal(&text, calls[HF_CORRUPT_IN_FREE], ptr);
    hf_text_say(&text, "the block of homefree's heap is freed with the alignment %zu, %s", said,
                said == 0 || (said & (said - 1)) != 0
                    ? "which is not a power of two"
                    : "but its address is not a multiple of that");
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; the two sides disagree about the object's type; free it with the "
                       "alignment that it was allocated with");
    end(&text);
}
