/* What a plugin loads from its own folder. */
extern int beside(void);

int beside(void)
{
    return 1;
}
