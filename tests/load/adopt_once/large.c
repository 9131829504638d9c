/* A library with 4 MB of names, so that it shows when somebody reads them. */
__asm__(".macro many\n"
        ".globl map_of_vectors_of_strings_by_functions_that_return_vectors_of_strings_\\@\n"
        "map_of_vectors_of_strings_by_functions_that_return_vectors_of_strings_\\@:\n"
        ".byte 0\n"
        ".endm\n"
        ".data\n"
        ".rept 50000\n"
        "many\n"
        ".endr\n"
        ".text\n");
