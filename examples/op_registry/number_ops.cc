// A library of operators on numbers.
#include "ops.h"

#include <sstream>

static std::vector<double> scale(std::vector<double> values, double factor)
{
    for (double &value : values)
        value *= factor;
    return values;
}
OPERATOR(scale, "Multiplies each number.", "values", "factor");

static std::vector<double> parse(const std::string &text)
{
    std::istringstream words(text);
    std::vector<double> values;
    for (double value; words >> value;)
        values.push_back(value);
    return values;
}
OPERATOR(parse, "Reads numbers from a text.", "text");
