/* A library that does not link libhomefree, and uses it in a constructor: see test_early_call.c. */
#include <homefree/homefree.h>
#include <string.h>

#pragma weak hf_malloc
#pragma weak hf_realloc
#pragma weak hf_free
#pragma weak hf_region_range

/* Exported for the program. */
HF_API extern char *early_block;
HF_API extern size_t early_region_size;
HF_API extern int early_mode;
char *early_block;
size_t early_region_size = (size_t)-1;
#ifdef EARLY_FREES
int early_mode = 'f';
#else
int early_mode = 'm';
#endif

__attribute__((constructor(101))) static void call_early(void)
{
    if (hf_malloc == NULL)
        return;
    early_region_size = hf_region_range.size;
    if (early_mode == 'f')
        hf_free(strdup("libc's, and the first call of all"));
    early_block = hf_malloc(100);
    if (early_block != NULL)
        early_block = hf_realloc(early_block, 100000);
    if (early_block != NULL)
        strcpy(early_block, "early");
}
