/* A program that is linked with homefree, for failures.py: everything from its start to its end. */
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *block = hf_malloc(1000);
    if (block == NULL)
        return 3;
    memset(block, 's', 1000);
    free(block); /* routed */
    puts("done");
    return 0;
}
