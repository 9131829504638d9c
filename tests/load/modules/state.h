/*
 * A module with state of every kind, a library that it needs, and what both define.
 */
#ifndef HOMEFREE_TESTS_LOAD_MODULES_STATE_H
#define HOMEFREE_TESTS_LOAD_MODULES_STATE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns the address of a variable. */
struct state {
    int *(*global)(void);            /* exported */
    int *(*internal)(void);          /* static */
    int *(*unique)(void);            /* an inline variable: STB_GNU_UNIQUE */
    int *(*inside)(void);            /* static in an inline function: STB_GNU_UNIQUE, too */
    int *(*thread)(void);            /* thread-local */
    void *(*of_library)(void);       /* an inline variable that the needed library defines, too */
    void *(*of_runtime)(void);       /* a variable that libstdc++ defines, too */
    void *(*library)(void);          /* the address of a function of the library */
    void *(*open)(const char *file); /* dlopen() */
    int (*count)(void);              /* one more each time */
    int makes_unique;                /* whether the compiler makes STB_GNU_UNIQUE: clang does not */
};

typedef const struct state *state_function(void);
state_function state;

#ifdef __cplusplus
}
#endif

#endif
