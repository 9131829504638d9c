/* One buffer that realloc lets grow to hundreds of megabytes in small steps, all of it written to:
 * "coarse" to 512 MB by 1 MB, "fine" to 256 MB by 64 KB. A scale below 1 ends earlier. */
#include "field.h"

#include <string.h>

void field_work(const struct field_call *call)
{
    int fine = strcmp(call->what, "fine") == 0;
    if (!fine && strcmp(call->what, "coarse") != 0)
        abort();
    size_t step = (size_t)1 << (fine ? 16 : 20), most = (size_t)256 << (fine ? 20 : 21);
    size_t count = field_times(call, most / step);
    char *buffer = NULL;
    for (size_t size = step; size <= count * step; size += step) {
        buffer = field_used(realloc(buffer, size));
        field_filled(buffer + size - step, step);
    }
    free(buffer);
}
