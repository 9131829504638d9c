/* Needs a library. */
int user = 1;
