/*
 * static.cc - an object that outlives the interpreter: exit(3) destroys it, after Py_Finalize().
 *
 * What it owns came from libc and libstdc++, and the module frees it.
 */
#include "crossings.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace crossings
{

namespace
{

class Kept
{
  public:
    ~Kept()
    {
        if (path == nullptr)
            return;
        const bool whole = strcmp(path, "/dev/null") == 0 && text == std::string(1100, '.');
        free(path);
        std::string().swap(text);
        const char *line = whole ? "static object destroyed\n" : "static object damaged\n";
        if (write(STDOUT_FILENO, line, strlen(line)) < 0)
            _exit(EXIT_FAILURE);
    }

    void fill()
    {
        text.assign(1100, '.');
        path = realpath("/dev/../dev/null", nullptr);
    }

  private:
    std::string text;
    char *path = nullptr;
};

Kept kept;

} // namespace

void keep_until_exit()
{
    kept.fill();
}

} // namespace crossings
