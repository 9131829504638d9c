/*
 * libstdcxx.cc - memory that crosses between the module and libstdc++.so: it grows the module's
 * strings, hands out strings that the module frees, and frees tables that the module allocated.
 */
#include "crossings.h"

#include <locale>
#include <memory_resource>
#include <sstream>
#include <system_error>
#include <vector>

namespace crossings
{

void require_letters(const std::string &text, std::size_t begin, std::size_t size)
{
    require(text.size() >= begin + size, "a text lost letters");
    for (std::size_t i = 0; i < size; i++)
        require(text[begin + i] == letter(i), "a text has wrong letters");
}

static constexpr std::size_t own_size = 100;

/* libstdc++ frees the module's buffer, and the module frees libstdc++'s. */
void append()
{
    std::string text = own_text(own_size);
    for (int i = 1; i <= 100; i++)
        text.append("0123456789");
    require(text.size() == own_size + 1000, "append: wrong size");
    require_letters(text, 0, own_size);
    require(text.compare(text.size() - 10, 10, "0123456789") == 0, "append: wrong end");
}

void insert()
{
    std::string text = own_text(own_size);
    for (int i = 1; i <= 100; i++)
        text.insert(0, "0123456789");
    require(text.size() == own_size + 1000, "insert: wrong size");
    require(text.compare(0, 10, "0123456789") == 0, "insert: wrong begin");
    require_letters(text, 1000, own_size);
}

/* A stream writes into a string that the module made, and grows it. */
void extract()
{
    const std::string line(5000, 'x');
    std::istringstream stream(line + " rest\n" + line + line + "\n");
    std::string word = own_text(own_size);
    stream >> word;
    require(word == line, ">>: wrong word");
    std::string rest = own_text(own_size);
    std::getline(stream, rest);
    require(rest == " rest", "getline: wrong first line");
    std::getline(stream, rest);
    require(rest == line + line, "getline: wrong second line");
}

/* Strings that libstdc++ made. Many of them at a time: a private allocator's cache swallows the
 * first few hundred, although they are not its own. */
void take_texts()
{
    std::vector<std::string> texts;
    for (int i = 0; i < 1000; i++)
        texts.push_back(std::make_error_code(std::errc::no_such_file_or_directory).message());
    for (const std::string &text : texts)
        require(text == "No such file or directory", "message: wrong text");
    texts.clear();

    std::ostringstream stream;
    for (int i = 0; i < 1000; i++)
        stream << i << ' ';
    for (int i = 0; i < 1000; i++)
        texts.push_back(stream.str());
    for (const std::string &text : texts)
        require(text.size() == 3890 && text.compare(0, 8, "0 1 2 3 ") == 0, "str: wrong text");
}

namespace
{

/* std::ctype<char> takes a table from new[] and frees it when it is told to. */
class Blanks : public std::ctype<char>
{
  public:
    explicit Blanks(const mask *table) : std::ctype<char>(table, true, 1)
    {
    }
};

} // namespace

void give_tables()
{
    auto *table = new std::ctype_base::mask[std::ctype<char>::table_size]();
    table[static_cast<unsigned char>(',')] = std::ctype_base::space;
    {
        const Blanks blanks(table);
        require(blanks.is(std::ctype_base::space, ','), "ctype: wrong table");
    }
    std::pmr::memory_resource *resource = std::pmr::new_delete_resource();
    resource->deallocate(::operator new(1000), 1000);
    void *block = resource->allocate(1000, alignof(std::max_align_t));
    ::operator delete(block);
}

} // namespace crossings
