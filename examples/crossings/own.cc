/*
 * own.cc - texts whose buffers are the module's.
 *
 * Compiled as C++20, as one file of a module often is: there libstdc++'s string is an ordinary
 * template, and its constructor calls the module's operator new. In C++17 the rest of the module
 * shares libstdc++'s own copy of the same functions, which calls libstdc++'s. That is how a
 * string's memory crosses although nobody passed a pointer.
 */
#include "crossings.h"

namespace crossings
{

std::string own_text(std::size_t size)
{
    std::string text(size, ' ');
    for (std::size_t i = 0; i < size; i++)
        text[i] = letter(i);
    return text;
}

} // namespace crossings
