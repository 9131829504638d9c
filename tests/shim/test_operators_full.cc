/*
 * A new-handler that finds memory: with a small region that is full, operator new calls it again
 * and again, and succeeds as soon as it has freed enough. Run with HOMEFREE_CONF=region:64M.
 */
#include "load_cxx.h"

#include <cstdio>
#include <cstdlib>
#include <homefree/homefree.h>
#include <new>

namespace
{

enum : std::size_t { SMALL = 1 << 20, LARGE = 2 << 20 };

void *blocks[256];
std::size_t held;
int calls;

/* Frees nothing in its first two calls. */
void handler()
{
    if (++calls < 3)
        return;
    while (held > 0)
        hf_free(blocks[--held]);
    if (calls > 3)
        std::set_new_handler(nullptr);
}

void fill(const module_cxx *module)
{
    while (held < 256) {
        void *block = module->allocate(SMALL, 0, false, true);
        if (block == nullptr)
            return;
        blocks[held++] = block;
    }
}

} // namespace

int main(int count, char **arguments)
{
    const module_cxx *module = load_module_cxx(count, arguments);
    for (int nothrow = 0; nothrow < 2; nothrow++) {
        std::set_new_handler(nullptr);
        fill(module);
        calls = 0;
        if (held == 256) {
            std::puts("the region is not full: HOMEFREE_CONF is not region:64M");
            return EXIT_FAILURE;
        }
        std::set_new_handler(handler);
        void *ptr = module->allocate(LARGE, 0, false, nothrow != 0);
        if (ptr == nullptr || calls != 3) {
            std::printf("operator new gave %p after %d calls of the handler\n", ptr, calls);
            return EXIT_FAILURE;
        }
        module->release(ptr, LARGE, 0, d_plain);
    }
    return EXIT_SUCCESS;
}
