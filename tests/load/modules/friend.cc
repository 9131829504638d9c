/*
 * See friend.h.
 */
#include "friend.h"

int *friend_variable()
{
    return &of_everyone;
}
