// The same suite, compiled as C++17.
#include "failing.c"
