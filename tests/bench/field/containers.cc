// The containers of C++, as programs use them: strings, vectors, maps and hash tables that grow,
// are looked into, lose elements and go.
#include "field.h"

#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

std::string text_of(uint64_t number)
{
    return std::string(number % 60, 'x') + std::to_string(number);
}

void fill_and_empty(uint64_t &random)
{
    std::map<uint64_t, std::string> tree;
    std::unordered_map<std::string, std::vector<int>> table;
    std::list<std::string> line;
    std::vector<std::string> words;
    for (int i = 0; i < 4000; i++) {
        uint64_t number = field_draw(&random);
        tree.emplace(number, text_of(number));
        table[text_of(number % 3000)].push_back(i);
        line.push_back(text_of(number >> 8));
        words.push_back(text_of(number >> 16));
        if (i % 3 == 0)
            tree.erase(tree.begin());
        if (i % 4 == 0)
            line.pop_front();
    }
    std::vector<std::string> copy(words);
    std::string all;
    for (const std::string &word : copy)
        all += word;
    for (int i = 0; i < 2000; i++)
        table.erase(text_of(static_cast<uint64_t>(i)));
}

} // namespace

void field_work(const struct field_call *call)
{
    uint64_t random = field_seed(0);
    size_t count = field_times(call, 120);
    for (size_t i = 0; i < count; i++)
        fill_and_empty(random);
}
