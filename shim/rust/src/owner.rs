// SPDX-License-Identifier: BSD-2-Clause
//! Who owns an address.

use crate::sys;
use core::ffi::c_void;
use core::fmt;
use core::sync::atomic::Ordering;

/// Whether the heap owns an address, that is, whether it lies in homefree's region.
///
/// True inside blocks and inside freed blocks as well. One subtraction and one comparison; safe in
/// signal handlers. The pointer is not read.
///
/// ```
/// # #[global_allocator]
/// # static HEAP: homefree::Homefree = homefree::Homefree;
/// let number = Box::new(7);
/// assert!(homefree::owns(&*number));
/// assert!(!homefree::owns("a text in the program"));
/// ```
#[inline]
pub fn owns<T: ?Sized>(ptr: *const T) -> bool {
    // SAFETY: the variable lives as long as the process; libhomefree writes it before other code runs.
    let region = unsafe { &sys::hf_region_range };
    let address = ptr as *const u8 as usize;
    address.wrapping_sub(region.base.load(Ordering::Relaxed)) < region.size.load(Ordering::Relaxed)
}

/// The kinds of owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// No allocator is known to own the memory.
    Unknown,
    /// homefree's heap; [`Owner::block`] is `None` outside live blocks.
    Heap,
    /// CPython's allocator for small objects.
    Pymalloc,
    /// libc's `malloc`.
    Libc,
    /// Another allocator, named by [`Owner::allocator`] and [`Owner::object`].
    Allocator,
    /// A thread's stack.
    Stack,
    /// A loaded shared object or the program, named by [`Owner::object`].
    Static,
    /// No memory is mapped there.
    Unmapped,
}

/// A live block of memory: where it begins, and how many bytes of it may be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    /// The first byte.
    pub start: *const c_void,
    /// At least what was asked for; 0 if it is unknown.
    pub size: usize,
}

/// The answer of [`owner_of`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Owner {
    /// What kind of owner it is.
    pub kind: Kind,
    /// `"homefree"`, `"glibc"`, `"mimalloc"`, …; `None` if unknown.
    pub allocator: Option<&'static str>,
    /// The path of the shared object that holds the allocator, or the memory; `None` if unknown.
    pub object: Option<&'static [u8]>,
    /// The live block that contains the address; `None` if unknown.
    pub block: Option<Block>,
    /// CPython's `"raw"`, `"mem"` or `"object"`; `None` if unknown.
    pub domain: Option<&'static str>,
}

/// Names the owner of an address. The answer is exact or [`Kind::Unknown`], never a guess.
///
/// The pointer is not read. Outside the heap the call takes tens of microseconds; it is for tests
/// and messages. [`owns`] is for decisions.
///
/// ```
/// # #[global_allocator]
/// # static HEAP: homefree::Homefree = homefree::Homefree;
/// let text = String::from("anywhere");
/// let owner = homefree::owner_of(text.as_ptr());
/// assert_eq!(owner.kind, homefree::Kind::Heap);
/// assert_eq!(owner.to_string(), "homefree, a block of 16 bytes");
/// ```
pub fn owner_of<T: ?Sized>(ptr: *const T) -> Owner {
    let mut answer = sys::hf_owner {
        size: core::mem::size_of::<sys::hf_owner>(),
        kind: 0,
        allocator: core::ptr::null(),
        object: core::ptr::null(),
        block: core::ptr::null(),
        block_size: 0,
        domain: core::ptr::null(),
    };
    // SAFETY: the answer is ours and says its size. The call cannot fail then; if a later library
    // refused, the answer would stay "unknown".
    unsafe { sys::hf_owner_of(ptr as *const c_void, &mut answer) };
    Owner {
        kind: match answer.kind {
            1 => Kind::Heap,
            2 => Kind::Pymalloc,
            3 => Kind::Libc,
            4 => Kind::Allocator,
            5 => Kind::Stack,
            6 => Kind::Static,
            7 => Kind::Unmapped,
            _ => Kind::Unknown,
        },
        // SAFETY: libhomefree's strings live as long as the process.
        allocator: unsafe { text(answer.allocator) },
        object: unsafe { bytes(answer.object) },
        block: if answer.block.is_null() {
            None
        } else {
            Some(Block {
                start: answer.block,
                size: answer.block_size,
            })
        },
        domain: unsafe { text(answer.domain) },
    }
}

/// The version of the loaded library, such as `"1.0.0"`.
pub fn version() -> &'static str {
    // SAFETY: a static string.
    unsafe { text(sys::hf_version()) }.unwrap_or("")
}

unsafe fn bytes(string: *const u8) -> Option<&'static [u8]> {
    if string.is_null() {
        return None;
    }
    let mut length = 0;
    while *string.add(length) != 0 {
        length += 1;
    }
    Some(core::slice::from_raw_parts(string, length))
}

unsafe fn text(string: *const u8) -> Option<&'static str> {
    core::str::from_utf8(bytes(string)?).ok()
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.kind {
            Kind::Unknown => "nobody known",
            Kind::Heap => "homefree",
            Kind::Pymalloc => "pymalloc",
            Kind::Libc => "libc",
            Kind::Allocator => self.allocator.unwrap_or("another allocator"),
            Kind::Stack => "a stack",
            Kind::Static => "static data",
            Kind::Unmapped => "nobody: nothing is mapped there",
        })?;
        if let (Kind::Allocator | Kind::Static, Some(object)) = (self.kind, self.object) {
            write!(out, " of {}", object.escape_ascii())?;
        }
        match self.block {
            Some(block) if block.size != 0 => write!(out, ", a block of {} bytes", block.size),
            _ => Ok(()),
        }
    }
}
