/* A module that needs the library of once.c. */
extern void *take_part(void);
extern void *part(void);

void *part(void)
{
    return take_part();
}
