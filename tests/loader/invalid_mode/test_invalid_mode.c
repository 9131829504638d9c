/* dlopen() with a mode that says neither RTLD_LAZY nor RTLD_NOW fails with the loader's own
 * message, which names the file as the caller did: a bare name used to come back as the path that
 * the search had found for it.
 *
 *   test_invalid_mode LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int message_of(char *text, size_t size, const char *file, int mode)
{
    if (dlopen(file, mode) != NULL)
        return 1;
    const char *message = dlerror();
    (void)snprintf(text, size, "%s", message != NULL ? message : "none");
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"libmode_found.so", "/no/such/file.so", "nowhere.so"};
    static const int modes[] = {0, RTLD_GLOBAL, RTLD_DEEPBIND};
    enum { FILES = 3, MODES = 3 };
    static char before[FILES][MODES][500], after[500];
    if (argc != 2)
        return 2;
    for (int f = 0; f < FILES; f++)
        for (int m = 0; m < MODES; m++)
            if (message_of(before[f][m], sizeof before[f][m], files[f], modes[m]) != 0)
                return 3;
    if (dlopen(argv[1], RTLD_NOW) == NULL)
        return 4;
    int failed = 0;
    for (int f = 0; f < FILES; f++)
        for (int m = 0; m < MODES; m++) {
            if (message_of(after, sizeof after, files[f], modes[m]) == 0 &&
                strcmp(after, before[f][m]) == 0)
                continue;
            fprintf(stderr, "%s, %#x: '%s' became '%s'\n", files[f], (unsigned)modes[m],
                    before[f][m], after);
            failed = 1;
        }
    return failed;
}
