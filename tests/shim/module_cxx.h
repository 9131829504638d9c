/*
 * What tests ask of a C++ module: its operators, by every form that the standard has, and objects
 * of the standard library that cross its boundary.
 */
#ifndef HOMEFREE_TESTS_SHIM_MODULE_CXX_H
#define HOMEFREE_TESTS_SHIM_MODULE_CXX_H

#include <cstddef>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

/* The twelve forms of operator delete; `d_` is delete, `v_` is delete[]. */
enum form {
    d_plain,
    v_plain,
    d_sized,
    v_sized,
    d_nothrow,
    v_nothrow,
    d_aligned,
    v_aligned,
    d_sized_aligned,
    v_sized_aligned,
    d_aligned_nothrow,
    v_aligned_nothrow,
    forms
};

struct base {
    virtual ~base() = default;
    virtual int value() const = 0;
};

struct module_cxx {
    /* operator new: single or array, nothrow or not; alignment 0 calls the form without an
     * alignment. */
    void *(*allocate)(std::size_t size, std::size_t alignment, bool array, bool nothrow);
    void (*release)(void *ptr, std::size_t size, std::size_t alignment, form form);

    /* Objects of the library with blocks of the module, which belong to the caller. */
    std::string (*text)(std::size_t length);
    std::string *(*new_text)(std::size_t length);
    std::vector<std::string> (*list)(std::size_t count);
    std::unique_ptr<base> (*object)(int value);
    std::shared_ptr<base> (*shared_object)(int value);
    std::function<int(int)> (*function)(int captured);
    std::unique_ptr<std::ostringstream> (*stream)(const char *start);
    void (*throw_error)(const std::string &message); /* throws std::runtime_error */

    /* Objects of the host that the module changes and destroys. */
    void (*grow)(std::string &text, std::size_t times);
    void (*grow_list)(std::vector<std::string> &list, std::size_t count);
    void (*destroy)(std::string *text);
    void (*drop)(std::unique_ptr<base> object);

    /* A static object of the module frees the block when the process exits. */
    void (*keep_until_exit)(void *from_host, void (*gone)(const char *stage));
};

extern "C" const module_cxx *module_cxx_functions();

#endif
