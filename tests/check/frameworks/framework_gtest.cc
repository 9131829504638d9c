// The assertions in a suite of GoogleTest, which is recognised by its header.
#include <gtest/gtest.h>

#include "bodies.h"

#define BODY(name)         \
    TEST(boundaries, name) \
    {                      \
        name();            \
    }
BODIES(BODY)

int main(int count, char **arguments)
{
    testing::InitGoogleTest(&count, arguments);
    return RUN_ALL_TESTS();
}
