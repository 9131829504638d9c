"""cffi writes the C and makes the extension, and Extension.of() links it with homefree as well."""

import cffi
from homefree.setuptools import Extension
from setuptools import setup

ffi = cffi.FFI()
ffi.cdef("""
    struct words;
    struct words *words_new(const char *text);
    void words_delete(struct words *list);
    size_t words_count(const struct words *list);
    char *words_join(const struct words *list, const char *separator);
    int64_t *words_lengths(const struct words *list);
    int words_each(const struct words *list, int (*visit)(const char *word, void *context),
                   void *context);
    void words_take(struct words *list, char *word);
    extern "Python" int words_visit(const char *word, void *context);
""")
ffi.set_source(
    "_words_cffi",
    '#include "library/words.h"',
    sources=["library/words.cc"],
    include_dirs=["."],
    extra_compile_args=["-std=c++20"],
    source_extension=".cc",
)

setup(
    name="words-cffi",
    version="1.0",
    py_modules=["words_cffi"],
    install_requires=["cffi", "homefree", "numpy"],
    ext_modules=[Extension.of(ffi.distutils_extension())],
)
