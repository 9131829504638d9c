/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * embed.c - run by the build: prints the bytes of a file as the contents of a C array of unsigned
 * char.
 *
 * Usage: embed FILE
 */
#include <stdio.h>

int main(int count, char **arguments)
{
    enum { IN_A_LINE = 20 };
    FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
    if (file == NULL) {
        fputs("usage: embed FILE\n", stderr);
        return 2;
    }
    int column = 0;
    for (int byte = fgetc(file); byte != EOF; byte = fgetc(file))
        printf("%d,%c", byte, ++column % IN_A_LINE == 0 ? '\n' : ' ');
    const int broken = ferror(file) != 0;
    fclose(file);
    return broken || fflush(stdout) != 0 ? 3 : 0;
}
