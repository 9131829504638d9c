/* The assertions without a framework, which end the program at the first failure: runs the test
 * that the argument names. */
#define HF_CK_FRAMEWORK_NONE
#include "bodies.h"

int main(int count, char **arguments)
{
#define BODY(name)                                      \
    if (count == 2 && strcmp(arguments[1], #name) == 0) \
        name();
    BODIES(BODY)
    return 0;
}
