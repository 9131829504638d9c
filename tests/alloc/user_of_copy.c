/* A library that links one instance of libhomefree, as a module that came with its own would; built
 * once for each copy. See test_copies_linked.c. */
#include <homefree/homefree.h>

HF_API void *ALLOCATE(size_t size);

void *ALLOCATE(size_t size)
{
    return hf_malloc(size);
}
