/*
 * The same for operator new.
 */
#include "tests/loader/limits/library.h"

#include <new>

void *library_new(size_t size)
{
    try {
        return new char[size];
    } catch (const std::bad_alloc &) {
        return reinterpret_cast<void *>(1);
    }
}

void library_delete(void *block)
{
    delete[] static_cast<char *>(block);
}
