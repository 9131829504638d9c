// SPDX-License-Identifier: 0BSD
//! Makes the allocator behind a `#[global_allocator]` a member of the registry: whoever frees its
//! blocks in the same process can send them home. allocator_registry.h has the duties of each
//! function; this is the same structure.
//!
//! `publish!` belongs into the crate that becomes a shared object or a program, or into the module
//! that defines the allocator: what nothing refers to is not linked from a library.
//!
//! `GlobalAlloc` says nothing about whose an address is, and frees by layout, so a generic wrapper
//! around any allocator cannot be a member. An allocator can that finds a block's size itself, as
//! jemalloc, mimalloc and snmalloc do.
#![no_std]

use core::ffi::{c_char, c_int, c_void};

pub const VERSION: u32 = 1;

/// What `owns` answers.
pub const NOT_MINE: c_int = 0;
pub const BLOCK: c_int = 1;
pub const INSIDE: c_int = 2;
pub const NO_BLOCK: c_int = 3;
pub const MINE: c_int = 4;

/// `flags`.
pub const TELLS_FIRST: u64 = 1;
pub const TELLS_DEAD: u64 = 2;
pub const SLOW: u64 = 4;
pub const DENIES_INSIDE: u64 = 8;
pub const DENIES_BLOCKS: u64 = 16;

#[repr(C)]
pub struct Statistics {
    pub size: usize,
    pub live: u64,
    pub held: u64,
}

pub type Visit = unsafe extern "C" fn(*const c_void, usize, c_int, *mut c_void) -> c_int;

/// What is published. The texts end with a zero byte.
#[repr(C)]
pub struct Registry {
    pub version: u32,
    pub size: u32,
    pub name: *const c_char,
    pub release: *const c_char,
    pub flags: u64,
    pub owns: unsafe extern "C" fn(*const c_void) -> c_int,
    pub free_block: unsafe extern "C" fn(*mut c_void),
    pub usable_size: unsafe extern "C" fn(*const c_void) -> usize,
    pub resize: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>,
    pub allocate: Option<unsafe extern "C" fn(usize, usize) -> *mut c_void>,
    pub ready: Option<unsafe extern "C" fn() -> c_int>,
    pub walk: Option<unsafe extern "C" fn(Option<Visit>, *mut c_void) -> c_int>,
    pub trim: Option<unsafe extern "C" fn()>,
    pub statistics: Option<unsafe extern "C" fn(*mut Statistics) -> c_int>,
}

// Nothing in it changes.
unsafe impl Sync for Registry {}

impl Registry {
    /// A member with what each one has. `name` ends with a zero byte.
    pub const fn new(
        name: &'static [u8],
        flags: u64,
        owns: unsafe extern "C" fn(*const c_void) -> c_int,
        free_block: unsafe extern "C" fn(*mut c_void),
        usable_size: unsafe extern "C" fn(*const c_void) -> usize,
    ) -> Registry {
        assert!(!name.is_empty() && name[name.len() - 1] == 0, "the name ends with a zero byte");
        Registry {
            version: VERSION,
            size: core::mem::size_of::<Registry>() as u32,
            name: name.as_ptr() as *const c_char,
            release: core::ptr::null(),
            flags,
            owns,
            free_block,
            usable_size,
            resize: None,
            allocate: None,
            ready: None,
            walk: None,
            trim: None,
            statistics: None,
        }
    }
}

/// `publish!(MEMBER, Registry { … });` defines a static and publishes it.
#[macro_export]
macro_rules! publish {
    ($name:ident, $registry:expr) => {
        #[used]
        static $name: $crate::Registry = $registry;

        #[cfg(all(target_pointer_width = "64", not(any(target_vendor = "apple", windows))))]
        ::core::arch::global_asm!(
            ".pushsection .note.allocator_registry, \"a\", %note",
            ".balign 4",
            ".long 18, 16, 1",
            ".asciz \"AllocatorRegistry\"",
            ".balign 4",
            ".quad {0} - .",
            ".hidden __ehdr_start",
            ".quad __ehdr_start - .",
            ".popsection",
            sym $name
        );

        #[cfg(any(target_vendor = "apple", windows))]
        const _: () = {
            #[used]
            #[cfg_attr(target_vendor = "apple", link_section = "__DATA,__allocreg")]
            #[cfg_attr(windows, link_section = ".allocrg")]
            static ENTRY: &$crate::Registry = &$name;
        };
    };
}
