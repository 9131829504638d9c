// The assertions in a suite of Catch2, which is recognised by its header.
#if __has_include(<catch2/catch_test_macros.hpp>)
#    include <catch2/catch_test_macros.hpp>
#else
#    define CATCH_CONFIG_MAIN
#    include <catch2/catch.hpp>
#endif

#include "bodies.h"

#define BODY(name)   \
    TEST_CASE(#name) \
    {                \
        name();      \
    }
BODIES(BODY)
