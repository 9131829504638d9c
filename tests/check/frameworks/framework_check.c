/* The assertions in a suite of Check, which is what nothing else chooses. */
#include "bodies.h"
#include "suite.h"

#define BODY(name)          \
    START_TEST(test_##name) \
    {                       \
        name();             \
    }                       \
    END_TEST
BODIES(BODY)

int main(void)
{
#define TEST(name) test_##name,
    TCase *all = tcase_create("boundaries");
    const TTest *const tests[] = {BODIES(TEST) NULL};
    add_tests(all, tests);
    return RUN_CASES("boundaries", all);
}
