// SPDX-License-Identifier: BSD-2-Clause
//! Allocate anywhere, free anywhere, for Rust: a global allocator on homefree's heap, whose blocks
//! every `free` of the process may free, and which frees the blocks of every allocator.
//!
//! ```
//! #[global_allocator]
//! static HEAP: homefree::Homefree = homefree::Homefree;
//! # assert!(homefree::owns(&*Box::new(1)));
//! ```
//!
//! That line is all that the source needs. C code that is compiled into the same module (by the `cc`
//! crate, say) allocates from the heap too, without a change; C++ code does with the feature `cxx`.
//! Nothing of homefree is exported.
//!
//! # What crosses
//!
//! | from | to | how |
//! |---|---|---|
//! | Rust | C, C++, Python, NumPy, another module | `Box::into_raw`, `CString::into_raw`, a leaked `Vec`; they call `free`, `delete` of a type without a destructor, `PyMem_RawFree` |
//! | C and all of these | Rust | `Box::from_raw`, `CString::from_raw`, `Vec::from_raw_parts`, or [`free`] |
//! | Rust | Rust code in another module that uses this crate | the same, in both directions |
//!
//! Rules that stay, because they are Rust's and not the allocator's:
//!
//! - **Destructors.** `free` frees one block. What a value owns besides is leaked, and its `Drop` does
//!   not run. Hand out memory (`Box<[f64]>`, `CString`), not values that own other values.
//! - **Layout.** `Box::from_raw` and `Vec::from_raw_parts` must be given the type that is in the block,
//!   and the capacity that the block was allocated with. The size itself is not trusted, but compared:
//!   a layout of another size class than the block's ends the process, and with
//!   `HOMEFREE_CONF=checks:full` every other layout does.
//! - **Nothing is not a block.** A `Box` of a zero-sized type and an empty `Vec` have no memory: their
//!   pointer dangles, and C must not free it. Give C a null pointer then.
//! - **Names.** `String` and `Vec` have no fixed layout; do not hand the structs themselves to another
//!   module. Pointer, length and capacity cross.
//! - **Types of Rust in two modules** are the same only if one compiler built both with the same
//!   definition, as without homefree.
//!
//! Rust's documentation asks that a block given to `Box::from_raw` was allocated by the global allocator.
//! With [`Homefree`] as the global allocator, a block of C's is freed by the same call as a block of
//! Rust's: [`GlobalAlloc::dealloc`] sends each to its owner. [`free`] makes no such demand at all.
//!
//! # Building
//!
//! The build script finds the installed homefree: in the directory that `HOMEFREE_LIB_DIR` names, in the
//! Python that the module is built for (`PYO3_PYTHON`, an active virtual environment, `python3`), or by
//! pkg-config. See the crate's README for how a Python module then finds the heap.
//!
//! # Platforms
//!
//! Linux with glibc. The crate is `no_std` and needs no other crate.

#![no_std]
#![warn(missing_docs)]

mod owner;
mod shim;
mod sys;

pub use owner::{owner_of, owns, version, Block, Kind, Owner};

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

/// The allocator: memory of homefree's heap.
///
/// ```
/// use std::ffi::CString;
///
/// #[global_allocator]
/// static HEAP: homefree::Homefree = homefree::Homefree;
///
/// extern "C" {
///     fn strdup(text: *const std::os::raw::c_char) -> *mut std::os::raw::c_char;
///     fn free(ptr: *mut std::os::raw::c_void);
/// }
///
/// let ours = CString::new("allocate anywhere").unwrap();
/// unsafe {
///     let theirs = CString::from_raw(strdup(ours.as_ptr())); // Rust frees what C allocated,
///     free(ours.into_raw().cast()); // and C frees what Rust did
///     assert_eq!(theirs.to_str(), Ok("allocate anywhere"));
/// }
/// ```
///
/// As with every global allocator, one crate of a program or module names it, once. It may serve a
/// single collection too, where that takes an allocator.
///
/// Threads: safe. Fork: safe; the child of a process with threads may allocate.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Homefree;

/// What any block of the heap is aligned to, provided that it is as large.
const ALIGNED: usize = 16;

/// Whether malloc's alignment is enough: a block is aligned for every type that fits into it.
#[inline]
const fn plain(align: usize, size: usize) -> bool {
    align <= ALIGNED && align <= size
}

/// Apart, so that whatever allocates calls a function of this crate, and the shim comes with it.
#[inline(never)]
unsafe fn aligned(layout: Layout) -> *mut u8 {
    shim::keep();
    sys::hf_aligned_alloc(layout.align(), layout.size()) as *mut u8
}

// SAFETY: the blocks are the heap's, live until they are freed, and have the layout asked for. Nothing
// here unwinds.
unsafe impl GlobalAlloc for Homefree {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if plain(layout.align(), layout.size()) {
            sys::hf_malloc(layout.size()) as *mut u8
        } else {
            aligned(layout)
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if plain(layout.align(), layout.size()) {
            return sys::hf_calloc(1, layout.size()) as *mut u8;
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    /// Frees the block of any allocator. The layout is only compared with a block of the heap; one
    /// that it cannot have been requested with ends the process.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if plain(layout.align(), layout.size()) {
            sys::hf_free_sized(block as *mut c_void, layout.size());
        } else {
            let block = block as *mut c_void;
            sys::hf_free_aligned_sized(block, layout.align(), layout.size());
        }
    }

    /// Resizes the block of any allocator. One that is not the heap's stays where it is, unless the
    /// layout asks for more than malloc's alignment.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if plain(layout.align(), layout.size()) && plain(layout.align(), size) {
            return sys::hf_realloc(block as *mut c_void, size) as *mut u8;
        }
        let resized = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !resized.is_null() {
            resized.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        resized
    }
}

/// Frees a block, whoever allocated it: C's `free` for every allocator of the process. Null does
/// nothing.
///
/// # Safety
///
/// `block` is null or the start of a live block that nobody uses any more. Its contents are not
/// dropped.
#[inline]
pub unsafe fn free<T: ?Sized>(block: *mut T) {
    sys::hf_free(block as *mut c_void)
}

/// How many bytes of a block may be used, whoever allocated it: at least what was asked for, and 0 for
/// null.
///
/// # Safety
///
/// `block` is null or the start of a live block.
#[inline]
pub unsafe fn usable_size<T: ?Sized>(block: *const T) -> usize {
    sys::hf_usable_size(block as *const c_void)
}
