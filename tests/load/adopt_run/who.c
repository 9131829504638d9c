/*
 * Each of the libraries that program.c needs defines this; the first in the order of lookup counts.
 */
extern const char *who(void);

const char *who(void)
{
    return WHO;
}
