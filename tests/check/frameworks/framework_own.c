/* The assertions with a macro of the program's own, which goes on after a failure. */
#include <stdio.h>

static const char *running;
static int failed;

#define HF_CK_FAIL(message) (failed++, (void)printf("%s: %s\n", running, (message)))
#include "bodies.h"

int main(void)
{
#define BODY(name)   \
    running = #name; \
    name();
    BODIES(BODY)
    return failed != 0;
}
