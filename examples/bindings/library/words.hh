/*
 * words.hh - a list of words: the small library that each directory here binds to Python.
 *
 * It knows nothing of Python and nothing of homefree: its memory is malloc's and new's. C++20, in
 * which std::string allocates in the library itself, and libstdc++ frees that when it grows one. A
 * list is for one thread at a time.
 */
#ifndef WORDS_HH
#define WORDS_HH

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

class Words
{
  public:
    /* The words of a text, which blanks separate. */
    explicit Words(const std::string &text);

    std::size_t count() const;
    std::string word(std::size_t index) const;

    /* A string: the words, with the separator between them. */
    std::string join(const std::string &separator) const;

    /* An array: the length of each word. The caller frees it with free(). */
    std::int64_t *lengths() const;

    /* A callback: calls visit with each word. What it throws ends the walk; it may add words, which
     * it is not called with. */
    void each(const std::function<void(const std::string &)> &visit) const;

    /* Adds a word that somebody allocated, and frees it. */
    void take(char *word);

  private:
    std::vector<std::string> words;
};

#endif
