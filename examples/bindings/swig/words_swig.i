/* The library through SWIG: it reads the header, and this says what the header cannot. */
%module(directors="1") words_swig

%{
#include <cstring>
#include <homefree/python.h>
#include "library/words.hh"
%}
%include <stdint.i>
%include <std_string.i>

/* An array over the library's memory; hf_free() frees it with the last view. */
%typemap(out) std::int64_t *lengths {
    const Py_ssize_t count = static_cast<Py_ssize_t>(arg1->count());
    const hf_buffer_layout layout = {"q", sizeof *$1, 1, &count, nullptr, 0};
    hf_release *memory = hf_python_record($1, "lengths", hf_free);
    if (memory == nullptr) {
        hf_free($1);
        SWIG_fail;
    }
    $result = hf_numpy_array(memory, $1, &layout);
    hf_release_drop(memory); /* the array holds on */
}

/* CPython allocates a copy; the library frees it. */
%typemap(in) char *word {
    const char *text = PyUnicode_AsUTF8($input);
    if (text == nullptr)
        SWIG_fail;
    $1 = static_cast<char *>(PyMem_RawMalloc(std::strlen(text) + 1));
    if ($1 == nullptr) {
        PyErr_NoMemory();
        SWIG_fail;
    }
    std::strcpy($1, text);
}
%typemap(freearg) char *word "";
%rename(add) Words::take;

/* A callback: a class whose method Python overrides. What Python raises passes through C++. */
%feature("director") Visitor;
%feature("director:except") {
    if ($error != nullptr)
        throw Swig::DirectorMethodException();
}
%inline %{
class Visitor
{
  public:
    virtual ~Visitor() = default;
    virtual void visit(const std::string &word) = 0;
};
%}
%exception Words::each {
    try {
        $action
    } catch (const Swig::DirectorException &) {
        SWIG_fail;
    }
}
%feature("pythonprepend") Words::each(Visitor &) const %{
        visitor = _Function(visitor) if callable(visitor) else visitor
%}
%extend Words {
    void each(Visitor &visitor) const
    {
        $self->each([&](const std::string &word) { visitor.visit(word); });
    }
    std::size_t __len__() const
    {
        return $self->count();
    }
}
%ignore Words::each(const std::function<void(const std::string &)> &) const;
%ignore Words::word;

%include "library/words.hh"

/* A plain function will do as well. */
%pythoncode %{
class _Function(Visitor):
    def __init__(self, function):
        super().__init__()
        self.visit = function
%}
