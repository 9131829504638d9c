/* Loads libraries. On failure the program exits, with dlerror()'s message on stderr: inside a test
 * that fails the test. */
#ifndef HOMEFREE_TESTS_SUPPORT_LIBRARY_H
#define HOMEFREE_TESTS_SUPPORT_LIBRARY_H

#ifdef __cplusplus
extern "C" {
#endif

void *load(const char *path, int mode);
void *symbol_of(void *handle, const char *name);

#ifdef __cplusplus
}
#endif

#endif
