// The registry: a table of operators by name, and the functions that ops.py calls.
#include "ops.h"

#include <map>
#include <mutex>

namespace
{

// Made when the first operator registers, whatever the order in which libraries are loaded, and
// never destroyed: operators take themselves out while the process ends.
struct Registry {
    std::mutex lock;
    std::map<std::string, const op *> operators;
};

Registry &registry()
{
    static Registry *const only = new Registry;
    return *only;
}

} // namespace

extern "C" {

void ops_register(const op *what)
{
    const std::lock_guard<std::mutex> held(registry().lock);
    registry().operators.emplace(what->name, what);
}

void ops_unregister(const op *what)
{
    const std::lock_guard<std::mutex> held(registry().lock);
    const auto found = registry().operators.find(what->name);
    if (found != registry().operators.end() && found->second == what)
        registry().operators.erase(found);
}

// The operators in the order of the alphabet: how many there are; up to `capacity` of them.
std::size_t ops_list(const op **out, std::size_t capacity)
{
    const std::lock_guard<std::mutex> held(registry().lock);
    std::size_t index = 0;
    for (const auto &entry : registry().operators) {
        if (index < capacity)
            out[index] = entry.second;
        index++;
    }
    return index;
}
}
