// SPDX-License-Identifier: BSD-2-Clause
//! Blocks cross between Rust and C, in both directions, in a program whose global allocator is the
//! heap.

use homefree::{owner_of, owns, Homefree, Kind};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CString;
use std::os::raw::{c_char, c_void};

#[global_allocator]
static HEAP: Homefree = Homefree;

extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn malloc(size: usize) -> *mut c_void;
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
}

/// libc's own malloc, which the shim's hides here.
fn libc_malloc(size: usize) -> *mut u8 {
    unsafe {
        let found = dlsym(std::ptr::null_mut(), b"malloc\0".as_ptr().cast());
        assert!(!found.is_null());
        let function: unsafe extern "C" fn(usize) -> *mut c_void = std::mem::transmute(found);
        function(size).cast()
    }
}

fn fill(block: *mut u8, size: usize) {
    (0..size).for_each(|i| unsafe { block.add(i).write(i as u8) });
}

fn is_filled(block: *const u8, size: usize) -> bool {
    (0..size).all(|i| unsafe { block.add(i).read() } == i as u8)
}

#[test]
fn every_layout_is_kept() {
    for align in (0..=16).map(|shift| 1usize << shift) {
        for size in [1, 2, 7, 8, 15, 16, 17, 100, 4096, 100_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let block = HEAP.alloc(layout);
                assert!(owns(block) && block as usize % align == 0, "{:?}", layout);
                assert!(homefree::usable_size(block) >= size);
                HEAP.dealloc(block, layout);
                let zeroed = HEAP.alloc_zeroed(layout);
                assert!(owns(zeroed) && zeroed as usize % align == 0, "{:?}", layout);
                assert!((0..size).all(|i| *zeroed.add(i) == 0), "{:?}", layout);
                HEAP.dealloc(zeroed, layout);
            }
        }
    }
}

#[test]
fn a_block_shrinks_and_grows() {
    for align in [1, 8, 16, 64, 4096] {
        let mut layout = Layout::from_size_align(100, align).unwrap();
        unsafe {
            let mut block = HEAP.alloc(layout);
            fill(block, 50);
            for size in [3000, 200_000, 60, 50, 4000] {
                block = HEAP.realloc(block, layout, size);
                assert!(
                    !block.is_null() && is_filled(block, 50),
                    "{} {}",
                    size,
                    align
                );
                assert_eq!(block as usize % align, 0);
                layout = Layout::from_size_align(size, align).unwrap();
            }
            HEAP.dealloc(block, layout);
        }
    }
}

#[test]
fn c_frees_what_rust_allocated() {
    let text = CString::new("allocate anywhere").unwrap();
    let numbers = vec![1.0f64; 1000].into_boxed_slice();
    assert!(owns(text.as_ptr()) && owns(numbers.as_ptr()));
    unsafe {
        free(text.into_raw().cast());
        free(Box::into_raw(numbers).cast());
    }
}

#[test]
fn rust_frees_what_c_allocated() {
    let ours = CString::new("free anywhere").unwrap();
    unsafe {
        let theirs = CString::from_raw(strdup(ours.as_ptr()));
        assert_eq!(theirs, ours);

        let block = libc_malloc(ours.as_bytes_with_nul().len());
        assert_eq!(owner_of(block).kind, Kind::Libc);
        block.copy_from_nonoverlapping(ours.as_ptr().cast(), ours.as_bytes_with_nul().len());
        assert_eq!(CString::from_raw(block.cast()), ours);

        homefree::free(libc_malloc(100));
        homefree::free(malloc(100));
        homefree::free(std::ptr::null_mut::<u8>());
    }
}

#[test]
fn a_vec_grows_in_a_block_of_libc_s() {
    unsafe {
        let block = libc_malloc(64);
        fill(block, 64);
        let mut bytes = Vec::from_raw_parts(block, 64, 64);
        (64..=255).for_each(|i| bytes.push(i));
        bytes.shrink_to_fit();
        assert!(is_filled(bytes.as_ptr(), 256));
        assert_eq!(
            owner_of(bytes.as_ptr()).kind,
            Kind::Libc,
            "it stays with its owner"
        );
    }
}

/// C code that is linked into the same program allocates from the heap, by the shim.
#[test]
fn malloc_is_the_heap_s() {
    unsafe {
        let block = malloc(100) as *mut u8;
        assert!(owns(block));
        drop(Vec::from_raw_parts(block, 0, 100));
    }
}

#[test]
fn blocks_cross_threads() {
    let (send, receive) = std::sync::mpsc::channel::<Vec<String>>();
    let freeing = std::thread::spawn(move || receive.into_iter().map(|list| list.len()).sum());
    let making: Vec<_> = (0..4)
        .map(|_| {
            let send = send.clone();
            std::thread::spawn(move || {
                for i in 0..200 {
                    send.send((0..i).map(|n| format!("word {}", n)).collect())
                        .unwrap();
                }
            })
        })
        .collect();
    drop(send);
    making.into_iter().for_each(|thread| thread.join().unwrap());
    let count: usize = freeing.join().unwrap();
    assert_eq!(count, 4 * 199 * 200 / 2);
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let mut bytes = Vec::<u8>::new();
    assert!(bytes.try_reserve_exact(isize::MAX as usize - 4096).is_err());
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 4096).unwrap();
    assert!(unsafe { HEAP.alloc(layout) }.is_null());
    assert!(unsafe { HEAP.alloc_zeroed(layout) }.is_null());
    let small = Layout::from_size_align(10, 1).unwrap();
    unsafe {
        let block = HEAP.alloc(small);
        fill(block, 10);
        assert!(HEAP.realloc(block, small, layout.size()).is_null());
        assert!(is_filled(block, 10));
        HEAP.dealloc(block, small);
    }
}

#[test]
fn owners_are_named() {
    static WORD: u64 = 7;
    let local = 7u64;
    let heap = owner_of(&*Box::new([0u8; 100]));
    assert_eq!((heap.kind, heap.allocator), (Kind::Heap, Some("homefree")));
    assert_eq!(owner_of(&local).kind, Kind::Stack);
    let program = owner_of(&WORD);
    assert_eq!(program.kind, Kind::Static);
    assert!(
        program.to_string().starts_with("static data of /"),
        "{}",
        program
    );
    assert_eq!(
        owner_of(8 as *const u8).to_string(),
        "nobody: nothing is mapped there"
    );
    assert!(!owns(&local) && !owns(&WORD) && !owns(std::ptr::null::<u8>()));
}

#[test]
fn the_versions_agree() {
    assert_eq!(homefree::version(), env!("CARGO_PKG_VERSION"));
}

/// The options that compare layouts with blocks find one that does not fit. It runs this program
/// again, in a process that dies.
#[test]
fn a_wrong_layout_is_found() {
    if std::env::var_os("WRONG_LAYOUT").is_some() {
        let bytes = Vec::<u8>::with_capacity(100);
        let block = std::mem::ManuallyDrop::new(bytes).as_mut_ptr();
        unsafe { drop(Vec::from_raw_parts(block, 0, 50)) };
        return;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_wrong_layout_is_found", "--nocapture"])
        .env("HOMEFREE_CONF", "checks:full")
        .env("WRONG_LAYOUT", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        said.contains("homefree: fatal:") && said.contains("100"),
        "{}",
        said
    );
    assert!(!run.status.success());
}
