/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that knows nothing of homefree: its free() is libc's, which would end the process at a
 * block of another allocator. The library's block goes home all the same. */
#include "greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *text = greeting("you");
    if (text == NULL || strcmp(text, "Hello, you!") != 0 || !greeting_is_on_the_heap(text)) {
        fputs("the greeting is not on homefree's heap\n", stderr);
        return EXIT_FAILURE;
    }
    free(text);
    puts("freed");
    return EXIT_SUCCESS;
}
