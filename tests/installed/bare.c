/* A module that calls nothing of Python, so that it can be linked with -Wl,-z,defs, which leaves no
 * symbol to be found when the module is loaded. */
#include <homefree/homefree.h>
#include <stdlib.h>
#include <string.h>

void *PyInit_bare(void);
void *PyInit_bare(void)
{
    char *copy = strdup("memory of the module");
    if (copy != NULL && !hf_owns(copy))
        abort();
    return realloc(copy, 100);
}
