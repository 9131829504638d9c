/*
 * libelf_archive.c - two functions of libelf's own that its static library lacks in elfutils 0.192
 * (Debian 13). They prepare and clear the tree behind elf_getdata_rawchunk(), which the command
 * does not call, in a descriptor that is zeroed already: an empty tree needs neither.
 *
 * Compiled only where libelf.a does not link without it.
 */
void eu_search_tree_init(void *tree, int (*compare)(const void *, const void *));
void eu_search_tree_fini(void *tree, void (*free_node)(void *));

void eu_search_tree_init(void *tree, int (*compare)(const void *, const void *))
{
    (void)tree;
    (void)compare;
}

void eu_search_tree_fini(void *tree, void (*free_node)(void *))
{
    (void)tree;
    (void)free_node;
}
