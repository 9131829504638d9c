/*
 * A program whose library loads and unloads another one in its constructor, which runs before
 * homefree's.
 */
#include <stdio.h>

extern int early_result;

int main(void)
{
    printf("%d\n", early_result);
    return 0;
}
