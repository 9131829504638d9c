/*
 * See state.h. Uses libstdc++'s old string, whose empty one is recognised by its address: it has to
 * be the same for everyone. With STATE_INITIAL_EXEC its thread-local variable is in the static
 * block.
 */
#define _GLIBCXX_USE_CXX11_ABI 0
#include "state.h"

#include "friend.h"

#include <dlfcn.h>
#include <string>

template class std::basic_string<char>; /* a definition that libstdc++ has, too */

int state_global;
inline int state_unique = 0;

inline int &inside_function()
{
    static int inside;
    return inside;
}

#ifdef STATE_INITIAL_EXEC
static thread_local int thread __attribute__((tls_model("initial-exec")));
#else
static thread_local int thread;
#endif

namespace
{

#ifdef __clang__
const int makes_unique = 0;
#else
const int makes_unique = 1;
#endif

int internal;

int *address_of_global()
{
    return &state_global;
}

int *address_of_internal()
{
    return &internal;
}

int *address_of_unique()
{
    return &state_unique;
}

int *address_of_inside()
{
    return &inside_function();
}

int *address_of_thread()
{
    return &thread;
}

void *address_of_library()
{
    return friend_variable();
}

void *address_of_inline()
{
    return &of_everyone;
}

void *address_of_runtime()
{
    std::string empty;
    return const_cast<char *>(empty.data());
}

void *open_file(const char *file)
{
    /* Not a tail call, which would make our caller the caller of dlopen(). */
    void *volatile handle = dlopen(file, RTLD_NOW);
    return handle;
}

} // namespace

/* Debuggers find this function by its name. */
extern "C" __attribute__((visibility("default"), noinline)) int state_count(void)
{
    return ++internal;
}

extern "C" __attribute__((visibility("default"))) const struct state *state(void)
{
    static const struct state functions = {
        address_of_global, address_of_internal, address_of_unique,  address_of_inside,
        address_of_thread, address_of_inline,   address_of_runtime, address_of_library,
        open_file,         state_count,         makes_unique,
    };
    return &functions;
}
