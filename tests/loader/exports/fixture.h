/*
 * fixture.h - object files made by hand, for tests of what reads them.
 *
 * Owns: nothing; writes into memory of the caller. A compiler could make such files too, but not
 * one with a symbol named "PyInit_x; evil" in it.
 */
#ifndef HOMEFREE_TESTS_LOADER_EXPORTS_FIXTURE_H
#define HOMEFREE_TESTS_LOADER_EXPORTS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

enum { FIXTURE_ROOM = 4096 };

struct fixture {
    unsigned char bytes[FIXTURE_ROOM];
    size_t size;
};

/* Fields as in Elf64_Sym. */
struct fixture_symbol {
    const char *name;
    unsigned char info;
    unsigned char visibility;
    uint16_t section; /* 0: undefined; 1: the fixture's .text */
};

/* Makes an ELF64 file in this machine's byte order, of `type` ET_REL (symbols in .symtab) or ET_DYN
 * (symbols in .dynsym). */
void fixture_object(struct fixture *out, uint16_t type, const struct fixture_symbol *symbols,
                    size_t count);

/* Returns the offset of the symbol section's header in a file by fixture_object(). */
size_t fixture_symbols_header(const struct fixture *object);

/* Makes an archive of the members, in this order and named 0.o, 1.o and so on. */
void fixture_archive(struct fixture *out, const struct fixture *const *members, size_t count);

/* Writes `size` bytes to a new file at `path`, which replaces any other. */
void fixture_write(const char *path, const void *bytes, size_t size);

#endif
