/* SPDX-License-Identifier: BSD-2-Clause */
/* Linked with homefree's shim: what malloc() returns here comes from the heap. */
#include "greeting.h"

#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *greeting(const char *name)
{
    size_t room = strlen(name) + sizeof "Hello, !";
    char *text = malloc(room);
    if (text != NULL)
        snprintf(text, room, "Hello, %s!", name);
    return text;
}

int greeting_is_on_the_heap(const char *text)
{
    return hf_owns(text);
}
