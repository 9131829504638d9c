/*
 * See embedded.h. Linked with a real allocator's archive, where EMBEDDED_MALLOC and
 * EMBEDDED_MEASURE are that allocator's names, and with a version script that hides them all.
 */
#include "embedded.h"

void *EMBEDDED_MALLOC(size_t size);
size_t EMBEDDED_MEASURE(void *ptr);

const struct embedded *embedded(void);

__attribute__((visibility("default"))) const struct embedded *embedded(void)
{
    static const struct embedded functions = {EMBEDDED_MALLOC, EMBEDDED_MEASURE};
    return &functions;
}

#ifdef EMBEDDED_NAMES
/* So many symbols whose names look like those of an allocator's functions that whoever collects
 * them has no room for all. They are no code. */
__asm__(".macro no_free\n"
        ".type no\\@_free, %function\n"
        "no\\@_free: .byte 0\n"
        ".endm\n"
        ".pushsection .data\n"
        ".rept 5000\n"
        "no_free\n"
        ".endr\n"
        ".popsection\n");
#endif
