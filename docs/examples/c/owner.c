/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/owner.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The heap's block, libc's, and a variable, which is nobody's to free. */
static void owners(void)
{
    struct hf_owner owner = {.size = sizeof owner};
    char *block = hf_malloc(100);
    assert(hf_owns(block));
    assert(hf_owner_of(block + 50, &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    assert(owner.block == block && owner.block_size >= 100);
    hf_free(block);

    char *text = strdup("from libc");
    assert(hf_owner_of(text, &owner) == 0 && owner.kind == HF_OWNER_LIBC);
    assert(strcmp(owner.allocator, "glibc") == 0);
    free(text);

    assert(!hf_owns(&owner));
    assert(hf_owner_of(&owner, &owner) == 0 && owner.kind == HF_OWNER_STACK);
}

int main(void)
{
    owners();
    return 0;
}
