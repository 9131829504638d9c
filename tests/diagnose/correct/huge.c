/*
 * A program that asks for more memory than the machine has: what libc refuses, the heap refuses
 * too.
 */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    for (int bits = 40; bits < 47; bits++) {
        void *block = malloc((size_t)1 << bits);
        void *cleared = calloc(1, (size_t)1 << bits);
        __asm__ volatile("" : "+r"(block), "+r"(cleared));
        printf("%d: %d %d\n", bits, block != NULL, cleared != NULL);
        free(block);
        free(cleared);
    }
    return 0;
}
