//! A Python module with nothing but the declarations that it needs of CPython's limited API, so
//! that it builds where no crates can be had. Addresses and sizes cross as integers.

use std::ffi::c_void;
use std::os::raw::{c_char, c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static HEAP: homefree::Homefree = homefree::Homefree;

type Object = *mut c_void;
type Function = unsafe extern "C" fn(module: Object, argument: Object) -> Object;

#[repr(C)]
struct Method {
    name: *const c_char,
    function: Option<Function>,
    flags: c_int,
    doc: *const c_char,
}

#[repr(C)]
struct Definition {
    head: [usize; 5],
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *const Method,
    slots: [*const c_void; 4],
}

struct Shared<T>(T);

// SAFETY: what is in it never changes, but for the head, which is CPython's.
unsafe impl<T> Sync for Shared<T> {}

extern "C" {
    fn PyModule_Create2(definition: *const Definition, version: c_int) -> Object;
    fn PyLong_AsSize_t(number: Object) -> usize;
    fn PyLong_FromSize_t(number: usize) -> Object;
    fn PyLong_FromLong(number: c_long) -> Object;
    fn PyErr_Occurred() -> Object;
    fn PyErr_NoMemory() -> Object;
    fn PyCapsule_New(
        pointer: *mut c_void,
        name: *const c_char,
        destructor: unsafe extern "C" fn(capsule: Object),
    ) -> Object;
    fn PyCapsule_GetPointer(capsule: Object, name: *const c_char) -> *mut c_void;

    fn part_malloc(size: usize) -> *mut u8;
    fn part_new(size: usize) -> *mut u8;
    fn part_delete(block: *mut u8);
    fn part_string(size: usize) -> usize;
}

/// Calls a function of one number, which may fail for want of memory.
unsafe fn with_number(argument: Object, call: impl FnOnce(usize) -> Option<usize>) -> Object {
    let number = PyLong_AsSize_t(argument);
    if number == usize::MAX && !PyErr_Occurred().is_null() {
        return std::ptr::null_mut();
    }
    match call(number) {
        Some(result) => PyLong_FromSize_t(result),
        None => PyErr_NoMemory(),
    }
}

/// A block of that many bytes, whose address goes to the caller.
unsafe extern "C" fn give(_: Object, size: Object) -> Object {
    with_number(size, |size| {
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 7);
        Some(Box::into_raw(bytes.into_boxed_slice()) as *mut u8 as usize)
    })
}

/// A block of 64 bytes that somebody allocated: Rust fills it, grows it, and frees it.
unsafe extern "C" fn take(_: Object, address: Object) -> Object {
    with_number(address, |address| {
        let mut bytes = Vec::from_raw_parts(address as *mut u8, 0, 64);
        bytes.resize(6400, 9);
        Some(bytes.iter().map(|byte| *byte as usize).sum())
    })
}

unsafe extern "C" fn owns(_: Object, address: Object) -> Object {
    with_number(address, |address| {
        Some(homefree::owns(address as *const u8).into())
    })
}

unsafe extern "C" fn cxx_malloc(_: Object, size: Object) -> Object {
    with_number(size, |size| Some(part_malloc(size) as usize))
}

unsafe extern "C" fn cxx_new(_: Object, size: Object) -> Object {
    with_number(size, |size| Some(part_new(size) as usize))
}

unsafe extern "C" fn cxx_delete(_: Object, address: Object) -> Object {
    with_number(address, |address| {
        part_delete(address as *mut u8);
        Some(0)
    })
}

unsafe extern "C" fn cxx_string(_: Object, size: Object) -> Object {
    with_number(size, |size| Some(part_string(size)))
}

/// What a capsule owns: more than one block, so it needs its destructor.
struct Words(Vec<String>);

static DROPPED: AtomicUsize = AtomicUsize::new(0);

impl Drop for Words {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.len(), Ordering::Relaxed);
    }
}

const WORDS: *const c_char = b"crossing.words\0".as_ptr().cast();

unsafe extern "C" fn drop_words(capsule: Object) {
    drop(Box::from_raw(
        PyCapsule_GetPointer(capsule, WORDS) as *mut Words
    ));
}

unsafe extern "C" fn capsule(_: Object, count: Object) -> Object {
    let words = (0..PyLong_AsSize_t(count))
        .map(|n| format!("the word {}", n))
        .collect();
    PyCapsule_New(
        Box::into_raw(Box::new(Words(words))).cast(),
        WORDS,
        drop_words,
    )
}

unsafe extern "C" fn dropped(_: Object, _: Object) -> Object {
    PyLong_FromLong(DROPPED.load(Ordering::Relaxed) as c_long)
}

/// Threads of Rust's, which do not hold the GIL, free what this one allocated.
unsafe extern "C" fn threads(_: Object, count: Object) -> Object {
    with_number(count, |count| {
        let blocks: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; 100 + n]).collect();
        let threads: Vec<_> = blocks
            .into_iter()
            .map(|block| {
                std::thread::spawn(move || block.iter().map(|b| *b as usize).sum::<usize>())
            })
            .collect();
        Some(
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(0))
                .sum(),
        )
    })
}

const BY_NUMBER: c_int = 8; // METH_O
const ALONE: c_int = 4; // METH_NOARGS

const fn method(name: &'static [u8], function: Function, flags: c_int) -> Method {
    Method {
        name: name.as_ptr().cast(),
        function: Some(function),
        flags,
        doc: std::ptr::null(),
    }
}

static METHODS: Shared<[Method; 10]> = Shared([
    method(b"give\0", give, BY_NUMBER),
    method(b"take\0", take, BY_NUMBER),
    method(b"owns\0", owns, BY_NUMBER),
    method(b"cxx_malloc\0", cxx_malloc, BY_NUMBER),
    method(b"cxx_new\0", cxx_new, BY_NUMBER),
    method(b"cxx_delete\0", cxx_delete, BY_NUMBER),
    method(b"cxx_string\0", cxx_string, BY_NUMBER),
    method(b"capsule\0", capsule, BY_NUMBER),
    method(b"dropped\0", dropped, ALONE),
    method(b"threads\0", threads, BY_NUMBER),
]);

#[no_mangle]
pub unsafe extern "C" fn PyInit_crossing() -> Object {
    // CPython keeps both for ever. The methods end with an empty one.
    let mut methods = Vec::with_capacity(11);
    methods.extend(METHODS.0.iter().map(|each| std::ptr::read(each)));
    methods.push(Method {
        name: std::ptr::null(),
        function: None,
        flags: 0,
        doc: std::ptr::null(),
    });
    let definition = Definition {
        head: [1, 0, 0, 0, 0],
        name: b"crossing\0".as_ptr().cast(),
        doc: std::ptr::null(),
        size: -1,
        methods: methods.leak().as_ptr(),
        slots: [std::ptr::null(); 4],
    };
    PyModule_Create2(Box::leak(Box::new(definition)), 3)
}
