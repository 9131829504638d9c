/*
 * loader/command/report/libdw_functions.def says what libdw's functions look like, so that building
 * the command needs no header of libdw. Where the header is installed, this program is built, and
 * its build fails where the two differ.
 */
#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdio.h>

#define hf_dwfl_callbacks Dwfl_Callbacks

#define HF_LIBDW(name, result, parameters)                                                  \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(name)), result(*) parameters), \
                   #name " has another type");
#include "loader/command/report/libdw_functions.def"

#define AT(member, number)                                                        \
    _Static_assert(offsetof(Dwfl_Callbacks, member) == (number) * sizeof(char *), \
                   #member " has another place")
AT(find_elf, 0);
AT(find_debuginfo, 1);
AT(section_address, 2);
AT(debuginfo_path, 3);

int main(void)
{
    puts("libdw's functions have the types of the table");
    return 0;
}
