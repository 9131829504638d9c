/* A library with many pages of code, of constants and of variables; for test_shared_pages.c. */
#define EXPORT __attribute__((visibility("default")))

__asm__(".section .rodata\n"
        ".p2align 12\n"
        ".globl wide_table\n"
        ".type wide_table, %object\n"
        "wide_table:\n"
        ".set number, 0\n"
        ".rept 65536\n"
        ".long number\n"
        ".set number, number + 1\n"
        ".endr\n"
        ".size wide_table, . - wide_table\n"
        ".text\n"
        ".p2align 12\n"
        ".globl wide_run\n"
        ".type wide_run, %function\n"
        "wide_run:\n"
        ".rept 65536\n"
        "nop\n"
        ".endr\n"
        "ret\n"
        ".size wide_run, . - wide_run\n");

EXPORT int wide_counts[16384] = {[8192] = 1};

int wide_call(int (*function)(void));
EXPORT int wide_call(int (*function)(void))
{
    return function() + wide_counts[4096];
}
