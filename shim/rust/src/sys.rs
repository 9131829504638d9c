// SPDX-License-Identifier: BSD-2-Clause
//! The functions of libhomefree that this crate calls, as `homefree/alloc.h`, `homefree/owner.h` and
//! `homefree/base.h` declare them. The headers say what each does.

#![allow(non_camel_case_types)]

use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;

/// The region. Written once, while libhomefree is loaded.
#[repr(C)]
pub struct hf_region_range {
    pub base: AtomicUsize,
    pub size: AtomicUsize,
}

/// What [`hf_owner_of`] fills in; `size` is the caller's.
#[repr(C)]
pub struct hf_owner {
    pub size: usize,
    pub kind: i32,
    pub allocator: *const u8,
    pub object: *const u8,
    pub block: *const c_void,
    pub block_size: usize,
    pub domain: *const u8,
}

extern "C" {
    pub static hf_region_range: hf_region_range;

    pub fn hf_version() -> *const u8;
    pub fn hf_malloc(size: usize) -> *mut c_void;
    pub fn hf_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hf_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hf_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hf_free(ptr: *mut c_void);
    pub fn hf_free_sized(ptr: *mut c_void, size: usize);
    pub fn hf_free_aligned_sized(ptr: *mut c_void, alignment: usize, size: usize);
    pub fn hf_usable_size(ptr: *const c_void) -> usize;
    pub fn hf_owner_of(ptr: *const c_void, out: *mut hf_owner) -> i32;
}
