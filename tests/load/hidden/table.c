/*
 * A table among code, as OpenSSL's ciphers have them in pyarrow 17 to 21: no instruction, and by
 * chance it looks like a call to the middle of a function of the allocator's.
 */
__asm__(".text\n"
        ".byte 0x06, 0x06, 0x06\n"
        ".byte 0xe8\n"
        ".long je_arena_choose_hard + 9 - (. + 4)\n"
        ".byte 0x06, 0x06, 0x06, 0x06\n");
