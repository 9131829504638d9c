/*
 * What a library offers in its header: a function, and an inline variable that every object which
 * uses it defines.
 */
#ifndef HOMEFREE_TESTS_LOAD_MODULES_FRIEND_H
#define HOMEFREE_TESTS_LOAD_MODULES_FRIEND_H

inline int of_everyone = 0;
extern "C" int *friend_variable();

#endif
