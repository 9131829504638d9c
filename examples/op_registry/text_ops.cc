// A library of operators on texts.
#include "ops.h"

#include <sstream>
#include <stdexcept>

static std::string join(const std::vector<double> &values, const std::string &separator)
{
    std::ostringstream text;
    const char *between = "";
    for (const double value : values) {
        text << between << value;
        between = separator.c_str();
    }
    return text.str();
}
OPERATOR(join, "Writes numbers as one text.", "values", "separator");

static std::string repeat(const std::string &text, double times)
{
    if (times < 0 || times > 1000000)
        throw std::invalid_argument("times is 0 to 1000000");
    std::string result;
    for (int done = 0; done < times; done++)
        result += text;
    return result;
}
OPERATOR(repeat, "Repeats a text.", "text", "times");
