/*
 * Opens one plugin after the other with RTLD_DEEPBIND, more than diagnostics mode once could tell
 * apart, and exchanges blocks of new[] with each: copies that stay, and then one that is closed.
 */
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace
{

template <typename Function> Function *look_up(void *library, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(library, name));
}

void *open_copy(const char *plugin)
{
    char path[] = "/tmp/deep-plugin-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0)
        return nullptr;
    close(file);
    std::ofstream(path, std::ios::binary) << std::ifstream(plugin, std::ios::binary).rdbuf();
    void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    unlink(path);
    return library;
}

} // namespace

int main()
{
    enum { STAY = 270, ALL = 1400 };
    std::vector<std::string> between; /* so that the linker's next description lies elsewhere */
    for (std::size_t i = 0; i < ALL; i++) {
        void *library = i < STAY ? open_copy(PLUGIN) : dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
        if (library == nullptr) {
            std::puts(dlerror());
            return 1;
        }
        auto *take = look_up<void(char *)>(library, "take");
        delete[] look_up<char *()>(library, "give")();
        take(new char[30]);
        between.emplace_back(1000 + i, 'x');
        if (i >= STAY)
            dlclose(library);
    }
    std::puts("all right");
    return 0;
}
