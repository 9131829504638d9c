/* What a plugin loads from its own directory. */
extern int beside(void);

int beside(void)
{
    return 1;
}
