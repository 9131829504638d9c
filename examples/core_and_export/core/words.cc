#include "words.h"

#include <algorithm>
#include <cctype>

namespace words
{

void Index::read(std::istream &text)
{
    std::string word;
    word.reserve(32); // more than most words need
    while (text >> word) {
        for (char &letter : word)
            letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        counts[word]++;
    }
}

std::size_t Index::count(const std::string &word) const
{
    const auto found = counts.find(word);
    return found == counts.end() ? 0 : found->second;
}

std::vector<std::string> Index::common(std::size_t wanted) const
{
    std::vector<std::string> result;
    for (const auto &entry : counts)
        result.push_back(entry.first);
    std::stable_sort(result.begin(), result.end(),
                     [this](const std::string &one, const std::string &other) {
                         return counts.at(one) > counts.at(other);
                     });
    result.resize(std::min(wanted, result.size()));
    return result;
}

} // namespace words
