#include "words.hh"
#include "words.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

static constexpr std::size_t usual = 20;

Words::Words(const std::string &text)
{
    std::istringstream stream(text);
    std::string word;
    word.reserve(usual); /* libstdc++ frees this, and allocates another, when a word is longer */
    while (stream >> word)
        words.push_back(word);
}

std::size_t Words::count() const
{
    return words.size();
}

std::string Words::word(std::size_t index) const
{
    return words[index];
}

std::string Words::join(const std::string &separator) const
{
    std::string text;
    for (const std::string &word : words) {
        if (!text.empty())
            text += separator;
        text += word;
    }
    return text;
}

std::int64_t *Words::lengths() const
{
    void *block = std::calloc(words.size() + 1, sizeof(std::int64_t));
    if (block == nullptr)
        throw std::bad_alloc();
    auto *numbers = static_cast<std::int64_t *>(block);
    for (std::size_t i = 0; i < words.size(); i++)
        numbers[i] = static_cast<std::int64_t>(words[i].size());
    return numbers;
}

void Words::each(const std::function<void(const std::string &)> &visit) const
{
    const std::size_t last = count();
    for (std::size_t i = 0; i < last; i++)
        visit(word(i));
}

void Words::take(char *word)
{
    words.emplace_back(word);
    std::free(word);
}

/* ---- for C ---------------------------------------------------------------------------------- */

struct words {
    Words list;
};

words *words_new(const char *text)
{
    return new words{Words(text)};
}

void words_delete(words *list)
{
    delete list;
}

size_t words_count(const words *list)
{
    return list->list.count();
}

char *words_join(const words *list, const char *separator)
{
    char *text = strdup(list->list.join(separator).c_str());
    if (text == nullptr)
        throw std::bad_alloc();
    return text;
}

int64_t *words_lengths(const words *list)
{
    return list->list.lengths();
}

int words_each(const words *list, int (*visit)(const char *word, void *context), void *context)
{
    const std::size_t last = list->list.count();
    int result = 0;
    for (std::size_t i = 0; i < last && result == 0; i++)
        result = visit(list->list.word(i).c_str(), context);
    return result;
}

void words_take(words *list, char *word)
{
    list->list.take(word);
}
