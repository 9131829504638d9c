/* A shared object that is loaded, gives a function to a record, and is unloaded. */
#include <homefree/homefree.h>

HF_API extern int releaser_calls;
HF_API void releaser_free(void *pointer);

int releaser_calls;

void releaser_free(void *pointer)
{
    releaser_calls++;
    hf_free(pointer);
}
