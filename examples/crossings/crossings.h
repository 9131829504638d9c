/*
 * crossings.h - what the parts of the module `crossings` share.
 *
 * Each function below lets memory cross the line between this module and the library that its file
 * is named for, then checks the contents. A crossing that the allocators do not survive ends the
 * process; contents that are wrong throw std::runtime_error.
 *
 * Nothing here knows which allocator the module is linked with: the objects are compiled once, and
 * linked with a private jemalloc or with homefree.
 */
#ifndef CROSSINGS_H
#define CROSSINGS_H

#include <cstddef>
#include <stdexcept>
#include <string>

namespace crossings
{

inline void require(bool condition, const char *what)
{
    if (!condition)
        throw std::runtime_error(what);
}

/* The letter at `index` of every text and block that crosses. */
inline char letter(std::size_t index)
{
    return static_cast<char>('a' + index % 26);
}

/* own.cc: a text whose buffer the module's operator new gave. */
std::string own_text(std::size_t size);

/* Throws unless text[begin..] continues as letter(0), letter(1), … for `size` letters. */
void require_letters(const std::string &text, std::size_t begin, std::size_t size);

/* libstdcxx.cc */
void append();
void insert();
void extract();
void take_texts();
void give_tables();

/* libc.cc */
void take_strdup();
void take_realpath();
void take_getline();
void take_asprintf();
void take_scandir();
void take_unlisted();
void give_to_grow();
void give_to_free();

/* static.cc: a static object that owns memory of libc and libstdc++; its destructor runs in
 * exit(3), when the interpreter is gone, and says so on standard output. */
void keep_until_exit();

} // namespace crossings

#endif
