/* A directory of the test's own below /tmp, with one file in it. */
#ifndef HOMEFREE_TESTS_SUPPORT_SCRATCH_H
#define HOMEFREE_TESTS_SUPPORT_SCRATCH_H

/* The directory, and the path of a file in it that is not made. Set by make_scratch(). */
extern char scratch_directory[64], scratch_file[96];

/* Fixtures: the first makes the directory, the second removes the file and the directory. */
void make_scratch(void);
void remove_scratch(void);

#endif
