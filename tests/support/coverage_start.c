/*
 * Linked into every object of the coverage build (tests/coverage): begins to count in the file
 * before the object's own constructors, of which libhomefree's has priority 101. What ran even
 * earlier, on calls from other objects' constructors, was counted in memory and is added.
 *
 * Owns the name of the object's file of counters. Runs once in each object, under the dynamic
 * linker's lock.
 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#pragma clang diagnostic ignored "-Wreserved-identifier"

#define HIDDEN __attribute__((visibility("hidden")))

/* The names of clang's runtime for profiles. It starts by itself unless the first is defined. */
extern int __llvm_profile_runtime HIDDEN;
int __llvm_profile_runtime;
extern char __llvm_profile_filename[] HIDDEN;
extern intptr_t __llvm_profile_counter_bias __attribute__((visibility("hidden"), weak));
extern intptr_t __llvm_profile_counter_bias_default __attribute__((visibility("hidden"), weak));
void __llvm_profile_initialize(void);
uint64_t *__llvm_profile_begin_counters(void);
uint64_t *__llvm_profile_end_counters(void);

/* %m: processes count in one file together; %c: in the file itself, not written there at the end.
 * The zeros become the object's build ID. %m stands for a signature that differing objects share,
 * which then cannot count in one file. */
#define ZEROS "0000000000000000"
char __llvm_profile_filename[] = HF_PROFILES "/" ZEROS "-%m%c.profraw";

/* The linker's: the object's own ELF header. */
extern const ElfW(Ehdr) __ehdr_start HIDDEN;

static const unsigned char *build_id(void)
{
    const char *header = (const char *)&__ehdr_start;
    const char *base = __ehdr_start.e_type == ET_EXEC ? NULL : header;
    const ElfW(Phdr) *segments = (const void *)(header + __ehdr_start.e_phoff);
    for (size_t i = 0; i < __ehdr_start.e_phnum; i++) {
        if (segments[i].p_type != PT_NOTE || segments[i].p_align == 8)
            continue;
        const char *at = base + segments[i].p_vaddr, *end = at + segments[i].p_filesz;
        while (at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note, *data = name + ((note->n_namesz + 3) & ~3U);
            if (note->n_type == NT_GNU_BUILD_ID && strcmp(name, "GNU") == 0)
                return (const void *)data;
            at = data + ((note->n_descsz + 3) & ~3U);
        }
    }
    return NULL;
}

static void name_file(void)
{
    const unsigned char *id = build_id();
    char *digit = __llvm_profile_filename + sizeof HF_PROFILES;
    for (size_t i = 0; id != NULL && i < sizeof ZEROS / 2; i++) {
        *digit++ = "0123456789abcdef"[id[i] >> 4];
        *digit++ = "0123456789abcdef"[id[i] & 15];
    }
}

__attribute__((constructor(100))) static void start_counting(void)
{
    /* The runtime has a bias of its own where the compiler made no code that counts: where all
     * that is counted was dropped, such as a header's inline function, its counters may remain. */
    if (&__llvm_profile_counter_bias == &__llvm_profile_counter_bias_default)
        return;
    name_file();
    __llvm_profile_initialize();
    intptr_t bias = __llvm_profile_counter_bias;
    if (bias == 0)
        return;
    uint64_t *end = __llvm_profile_end_counters();
    for (uint64_t *counter = __llvm_profile_begin_counters(); counter < end; counter++)
        if (*counter != 0)
            *(uint64_t *)((uintptr_t)counter + (uintptr_t)bias) += *counter;
}
