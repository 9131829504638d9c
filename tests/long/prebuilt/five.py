import ctypes

c = ctypes.pythonapi  # the C functions of this process: CPython's and libc's
c.PyUnicode_AsWideCharString.restype = ctypes.c_void_p
text = c.PyUnicode_AsWideCharString(ctypes.py_object("hello" * 20), None)  # CPython's allocator
c.free(ctypes.c_void_p(text))  # libc's free
print("still here")
