/* A library that is found by its bare name, in a directory that the program's RUNPATH names. */
extern int mode_found;
int mode_found;
