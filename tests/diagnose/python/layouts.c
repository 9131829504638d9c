/* Compares loader/host/python_layouts.def with the headers of one CPython. test_frames.py
 * compiles it for each CPython that has headers. Prints what differs, and fails then.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#if PY_VERSION_HEX >= 0x030e0000
#    include <internal/pycore_interpframe.h>
#elif PY_VERSION_HEX >= 0x030b0000
#    include <internal/pycore_frame.h>
#endif
#include <internal/pycore_code.h>

static const int rows[][19] = {
#define HF_PYTHON_LAYOUT(...) {__VA_ARGS__},
#include "loader/host/python_layouts.def"
};

static const char *const names[] = {
    "version", "free_threaded", "thread_frame", "inner", "back",       "code",  "position",
    "owner",   "copy",          "file",         "name",  "first_line", "lines", "instructions",
    "copies",  "object",        "ascii",        "wide",  "kind"};

#ifdef Py_GIL_DISABLED
#    define FREE_THREADED 1
#else
#    define FREE_THREADED 0
#endif
#define HAS_COPIES (FREE_THREADED && PY_VERSION_HEX >= 0x030e0000)

/* The last one is found by looking at a value. */
static int real[] = {
    PY_VERSION_HEX >> 16,
    FREE_THREADED,
#if PY_VERSION_HEX >= 0x030d0000
    offsetof(PyThreadState, current_frame),
    -1,
#elif PY_VERSION_HEX >= 0x030b0000
    offsetof(PyThreadState, cframe),
    offsetof(_PyCFrame, current_frame),
#else
    offsetof(PyThreadState, frame),
    -1,
#endif
#if PY_VERSION_HEX >= 0x030d0000
    offsetof(_PyInterpreterFrame, previous),
    offsetof(_PyInterpreterFrame, f_executable),
    offsetof(_PyInterpreterFrame, instr_ptr),
    offsetof(_PyInterpreterFrame, owner),
#elif PY_VERSION_HEX >= 0x030b0000
    offsetof(_PyInterpreterFrame, previous),
    offsetof(_PyInterpreterFrame, f_code),
    offsetof(_PyInterpreterFrame, prev_instr),
    offsetof(_PyInterpreterFrame, owner),
#else
    offsetof(PyFrameObject, f_back),
    offsetof(PyFrameObject, f_code),
    offsetof(PyFrameObject, f_lasti),
    -1,
#endif
#if HAS_COPIES
    offsetof(_PyInterpreterFrame, tlbc_index),
#else
    -1,
#endif
    offsetof(PyCodeObject, co_filename),
#if PY_VERSION_HEX >= 0x030b0000
    offsetof(PyCodeObject, co_qualname),
#else
    offsetof(PyCodeObject, co_name),
#endif
    offsetof(PyCodeObject, co_firstlineno),
#if PY_VERSION_HEX >= 0x030a0000
    offsetof(PyCodeObject, co_linetable),
#else
    offsetof(PyCodeObject, co_lnotab),
#endif
#if PY_VERSION_HEX >= 0x030b0000
    offsetof(PyCodeObject, co_code_adaptive),
#else
    -1,
#endif
#if HAS_COPIES
    offsetof(PyCodeObject, co_tlbc),
#else
    -1,
#endif
    sizeof(PyObject),
    sizeof(PyASCIIObject),
    sizeof(PyCompactUnicodeObject),
    0,
};

static int differs(const char *what, int here, int there)
{
    if (here == there)
        return 0;
    printf("%s: %d here, %d in the headers\n", what, here, there);
    return 1;
}

/* The bits of a str's state. */
static int state(int kind, int compact, int ascii)
{
    union {
        PyASCIIObject text;
        char bytes[sizeof(PyASCIIObject)];
    } object;
    unsigned word;
    memset(&object, 0, sizeof object);
    object.text.state.kind = (unsigned)kind;
    object.text.state.compact = (unsigned)compact;
    object.text.state.ascii = (unsigned)ascii;
    memcpy(&word, object.bytes + offsetof(PyASCIIObject, state), sizeof word);
    return (int)word;
}

int main(void)
{
    const int object = sizeof(PyObject), kind = __builtin_ctz(state(1, 0, 0));
    int wrong = 0, found = 0;
    real[sizeof real / sizeof real[0] - 1] = kind;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i][0] == real[0] && rows[i][1] == real[1]) {
            found = 1;
            for (size_t k = 0; k < sizeof real / sizeof real[0]; k++)
                wrong |= differs(names[k], rows[i][k], real[k]);
        }
    wrong |= differs("row", found, 1);
    wrong |= differs("OBJECT_TYPE", object - 8, offsetof(PyObject, ob_type));
    wrong |= differs("VAR_SIZE", object, offsetof(PyVarObject, ob_size));
    wrong |= differs("BYTES_DATA", object + 16, offsetof(PyBytesObject, ob_sval));
    wrong |= differs("TEXT_LENGTH", object, offsetof(PyASCIIObject, length));
    wrong |= differs("TEXT_STATE", object + 16, offsetof(PyASCIIObject, state));
    wrong |= differs("kind", 4 << kind, state(4, 0, 0));
    wrong |= differs("TEXT_COMPACT", 1 << 3 << kind, state(0, 1, 0));
    wrong |= differs("TEXT_ASCII", 1 << 4 << kind, state(0, 0, 1));
#if HAS_COPIES
    wrong |= differs("COPIES", 8, offsetof(_PyCodeArray, entries));
#endif
#if PY_VERSION_HEX >= 0x030e0000
    wrong |= differs("OWNED_BY_C", 3, FRAME_OWNED_BY_INTERPRETER);
#elif PY_VERSION_HEX >= 0x030c0000
    wrong |= differs("OWNED_BY_C", 3, FRAME_OWNED_BY_CSTACK);
#endif
    return wrong;
}
