// SPDX-License-Identifier: BSD-2-Clause
//! Keeps the shim's functions in what is linked, so that C code of other crates in the same module
//! allocates from the heap too. A linker takes members of an archive only while somebody wants them,
//! and the archives of those crates, and Rust's own, may come later on its command line.
//!
//! Older compilers (1.63) drop the `#[used]` variables of a dependency; therefore `keep`, which
//! allocating calls.
//!
//! The names are hidden: a module that has them exports none of them.

use core::ffi::c_void;

type Function = unsafe extern "C" fn();

/// The address of a function that is only named here, never called.
#[repr(transparent)]
struct Kept(Function);

extern "C" {
    fn malloc();
    fn calloc();
    fn realloc();
    fn reallocarray();
    fn free();
    fn aligned_alloc();
    fn memalign();
    fn posix_memalign();
    fn malloc_usable_size();
    fn strdup();
    fn strndup();
}

#[used]
static MALLOC_FAMILY: [Kept; 11] = [
    Kept(malloc),
    Kept(calloc),
    Kept(realloc),
    Kept(reallocarray),
    Kept(free),
    Kept(aligned_alloc),
    Kept(memalign),
    Kept(posix_memalign),
    Kept(malloc_usable_size),
    Kept(strdup),
    Kept(strndup),
];

/// Wants the shim's functions.
#[inline(always)]
pub(crate) fn keep() {
    // SAFETY: they are ours; read for the linker's sake, so not optimised away.
    unsafe {
        core::ptr::read_volatile(&MALLOC_FAMILY[0].0);
        #[cfg(feature = "cxx")]
        core::ptr::read_volatile(&operators::OPERATORS[0].0);
    }
}

#[cfg(feature = "cxx")]
mod operators {
    use super::Kept;

    extern "C" {
        fn _Znwm();
        fn _ZdlPv();
    }

    /// All operators are in one member of the archive.
    #[used]
    pub(super) static OPERATORS: [Kept; 2] = [Kept(_Znwm), Kept(_ZdlPv)];
}

const _: () = assert!(core::mem::size_of::<Kept>() == core::mem::size_of::<*const c_void>());
