/*
 * A module whose constructor stays inside dlopen() until the program lets it go on: `gate_enter`
 * and `gate_leave` are the program's.
 */
void gate_enter(void);
void gate_leave(void);

__attribute__((constructor)) static void enter(void)
{
    gate_enter();
}

__attribute__((destructor)) static void leave(void)
{
    gate_leave();
}
