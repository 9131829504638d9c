// Counts the words of a text. Nothing here knows of Python or of homefree.
#ifndef WORDS_H
#define WORDS_H

#include <istream>
#include <map>
#include <string>
#include <vector>

namespace words
{

class Index
{
  public:
    // Adds every word that the stream holds, in lower case.
    void read(std::istream &text);

    // How often a word was read.
    std::size_t count(const std::string &word) const;

    // The words that were read most often, at most `wanted`; equals in the order of the alphabet.
    std::vector<std::string> common(std::size_t wanted) const;

  private:
    std::map<std::string, std::size_t> counts;
};

} // namespace words

#endif
