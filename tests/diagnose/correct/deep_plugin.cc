/* Loaded many times by deep_plugins.cc; its operators are the C++ runtime's (RTLD_DEEPBIND). */
#define EXPORTED __attribute__((visibility("default")))

extern "C" {
EXPORTED char *give();
EXPORTED void take(char *block);

char *give()
{
    return new char[40];
}

void take(char *block)
{
    delete[] block;
}
}
