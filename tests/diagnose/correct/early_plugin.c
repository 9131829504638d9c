/* What early_library.c loads and unloads. */
#include <stdio.h>

__attribute__((constructor)) static void begin(void)
{
    puts("loaded");
}

__attribute__((destructor)) static void end(void)
{
    puts("unloaded");
}
