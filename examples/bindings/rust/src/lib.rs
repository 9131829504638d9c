//! The library through PyO3. Rust allocates from the heap, and so does the C++ that is linked in.

use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::{ffi, types::PyDict};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::NonNull;

#[global_allocator]
static HEAP: homefree::Homefree = homefree::Homefree;

/// library/words.h
mod library {
    use super::*;

    #[repr(C)]
    pub struct Words {
        private: [u8; 0],
    }

    type Visit = unsafe extern "C" fn(word: *const c_char, context: *mut c_void) -> c_int;

    extern "C" {
        pub fn words_new(text: *const c_char) -> *mut Words;
        pub fn words_delete(list: *mut Words);
        pub fn words_count(list: *const Words) -> usize;
        pub fn words_join(list: *const Words, separator: *const c_char) -> *mut c_char;
        pub fn words_lengths(list: *const Words) -> *mut i64;
        pub fn words_each(list: *const Words, visit: Visit, context: *mut c_void) -> c_int;
        pub fn words_take(list: *mut Words, word: *mut c_char);
    }
}

/// A list of words.
#[pyclass]
struct Words {
    list: NonNull<library::Words>,
}

// SAFETY: a list is for one thread at a time; Python calls the methods with the GIL held.
unsafe impl Send for Words {}
unsafe impl Sync for Words {}

/// An object: the collector deletes it, and the library its part.
impl Drop for Words {
    fn drop(&mut self) {
        unsafe { library::words_delete(self.list.as_ptr()) }
    }
}

#[pymethods]
impl Words {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let list = unsafe { library::words_new(CString::new(text)?.as_ptr()) };
        let list = NonNull::new(list).expect("out of memory ends the process");
        Ok(Words { list })
    }

    fn __len__(&self) -> usize {
        unsafe { library::words_count(self.list.as_ptr()) }
    }

    /// A string of the library's, which Rust owns from now on, and frees.
    fn join(&self, separator: &str) -> PyResult<String> {
        let separator = CString::new(separator)?;
        let text = unsafe {
            CString::from_raw(library::words_join(self.list.as_ptr(), separator.as_ptr()))
        };
        Ok(text.into_string()?)
    }

    /// An array over the library's memory, which Rust frees with the last view.
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.__len__();
        // The library allocates one number more, so there always is a block.
        let numbers = unsafe {
            Vec::from_raw_parts(library::words_lengths(self.list.as_ptr()), count, count + 1)
        };
        let arguments = PyDict::new_bound(py);
        arguments.set_item("dtype", "int64")?;
        py.import_bound("numpy")?.call_method(
            "frombuffer",
            (Numbers(numbers).into_py(py),),
            Some(&arguments),
        )
    }

    /// A callback: the library calls it for each word; an exception ends the walk.
    fn each(&self, visit: &Bound<'_, PyAny>) -> PyResult<()> {
        struct Walk<'a, 'py> {
            visit: &'a Bound<'py, PyAny>,
            error: Option<PyErr>,
        }

        unsafe extern "C" fn call(word: *const c_char, context: *mut c_void) -> c_int {
            let walk = &mut *(context as *mut Walk);
            walk.error = walk
                .visit
                .call1((CStr::from_ptr(word).to_string_lossy(),))
                .err();
            walk.error.is_some().into()
        }

        let mut walk = Walk { visit, error: None };
        let context = &mut walk as *mut Walk as *mut c_void;
        unsafe { library::words_each(self.list.as_ptr(), call, context) };
        walk.error.map_or(Ok(()), Err)
    }

    /// CPython allocates a copy; the library frees it.
    fn add(&self, word: &str) -> PyResult<()> {
        let word = CString::new(word)?;
        let bytes = word.as_bytes_with_nul();
        unsafe {
            let copy = ffi::PyMem_RawMalloc(bytes.len()) as *mut c_char;
            if copy.is_null() {
                return Err(PyMemoryError::new_err(()));
            }
            copy.copy_from_nonoverlapping(word.as_ptr(), bytes.len());
            library::words_take(self.list.as_ptr(), copy);
        }
        Ok(())
    }
}

/// Rust allocates a string; whoever gets the address frees it with free().
#[pyfunction]
fn give(text: &str) -> PyResult<usize> {
    Ok(CString::new(text)?.into_raw() as usize)
}

/// Somebody allocated a string; Rust owns it from now on, and frees it.
#[pyfunction]
fn take(address: usize) -> PyResult<String> {
    let text = unsafe { CString::from_raw(address as *mut c_char) };
    Ok(text.into_string()?)
}

/// Numbers that NumPy looks at through the buffer protocol.
#[pyclass]
struct Numbers(Vec<i64>);

#[pymethods]
impl Numbers {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.borrow();
        let start = this.0.as_ptr() as *mut c_void;
        let bytes = std::mem::size_of_val(this.0.as_slice()) as ffi::Py_ssize_t;
        if ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, bytes, 0, flags) != 0 {
            return Err(PyErr::take(slf.py()).unwrap_or_else(|| PyBufferError::new_err("refused")));
        }
        Ok(())
    }
}

#[pymodule]
fn words_rust(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Words>()?;
    module.add_function(wrap_pyfunction!(give, module)?)?;
    module.add_function(wrap_pyfunction!(take, module)?)
}
