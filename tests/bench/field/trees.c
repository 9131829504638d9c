/* Binary trees of small nodes with strings: many are built and taken down, one stays. */
#include "field.h"

#include <string.h>

struct node {
    struct node *left, *right;
    char *name;
};

static struct node *grow(unsigned depth)
{
    static const char text[] = "the name of a node of the tree, which may be long";
    struct node *node = field_used(malloc(sizeof *node));
    size_t length = 8 + depth * 3;
    *node = (struct node){NULL, NULL, field_used(malloc(length + 1))};
    memcpy(node->name, text, length);
    node->name[length] = '\0';
    if (depth != 0) {
        node->left = grow(depth - 1);
        node->right = grow(depth - 1);
    }
    return node;
}

static void fell(struct node *node)
{
    if (node == NULL)
        return;
    fell(node->left);
    fell(node->right);
    free(node->name);
    free(node);
}

void field_work(const struct field_call *call)
{
    size_t count = field_times(call, 3000);
    struct node *stays = grow(14);
    for (size_t i = 0; i < count; i++)
        fell(grow(6 + i % 8));
    fell(stays);
}
