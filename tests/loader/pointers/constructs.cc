// A library whose static constructor allocates and deletes, before any other object's has run.
#include <string>
#include <vector>

extern "C" int constructed;
int constructed;

namespace
{

struct Early {
    Early()
    {
        std::vector<std::string> strings;
        for (int i = 0; i < 1000; i++) {
            char *block = new char[100 + i];
            ::operator delete(::operator new(50));
            strings.push_back(std::string(static_cast<size_t>(i) * 100, 'x'));
            delete[] block;
            constructed++;
        }
    }
} early;

} // namespace
