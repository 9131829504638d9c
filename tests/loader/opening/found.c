/*
 * What is looked for: an object without a soname.
 */
__attribute__((visibility("default"))) int homefree_test_found = 1;
