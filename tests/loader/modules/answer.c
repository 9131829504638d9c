/*
 * What counter.c's wrapper finds next.
 */
__attribute__((visibility("default"))) int answer(void);

int answer(void)
{
    return 41;
}
