/* A program that does nothing: its start and its end are the work. */
#include "field.h"

void field_work(const struct field_call *call)
{
    (void)call;
    free(field_used(malloc(100)));
}
