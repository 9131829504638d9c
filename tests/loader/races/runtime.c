/*
 * Passes for a C++ runtime by its soname, and defines one function of one. With CROWDED, a thousand
 * other functions make its tables larger than the largest page that Linux has.
 */
#include <stdlib.h>

void _ZdlPv(void *ptr);
int anything(void);

void _ZdlPv(void *ptr)
{
    free(ptr);
}

int anything(void)
{
    return 42;
}

#ifdef CROWDED
/* clang-format off */
#    define ONE(number)                                                                    \
        int a_function_whose_name_is_as_long_as_those_of_the_runtimes_of_many_programs_##number(void); \
        int a_function_whose_name_is_as_long_as_those_of_the_runtimes_of_many_programs_##number(void)  \
        {                                                                                  \
            return 0;                                                                      \
        }
#    define TEN(number)                                                                    \
        ONE(number##0) ONE(number##1) ONE(number##2) ONE(number##3) ONE(number##4)         \
        ONE(number##5) ONE(number##6) ONE(number##7) ONE(number##8) ONE(number##9)
#    define HUNDRED(number)                                                                \
        TEN(number##0) TEN(number##1) TEN(number##2) TEN(number##3) TEN(number##4)         \
        TEN(number##5) TEN(number##6) TEN(number##7) TEN(number##8) TEN(number##9)
HUNDRED(0) HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4)
HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)
/* clang-format on */
#endif
