/* A library with a soname and a global, for test_copy_failures.c. */
__attribute__((visibility("default"))) int copied_state;
