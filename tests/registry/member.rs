//! A member in Rust: blocks of one static array, as in member.c.
use allocator_registry::{publish, Registry, BLOCK, NOT_MINE};
use core::ffi::{c_int, c_void};

static MEMORY: [u8; 4096] = [0; 4096];

unsafe extern "C" fn owns(address: *const c_void) -> c_int {
    let offset = (address as usize).wrapping_sub(MEMORY.as_ptr() as usize);
    if offset < MEMORY.len() { BLOCK } else { NOT_MINE }
}

unsafe extern "C" fn free_block(_block: *mut c_void) {}

unsafe extern "C" fn usable_size(_block: *const c_void) -> usize {
    MEMORY.len()
}

unsafe extern "C" fn allocate(_size: usize, _alignment: usize) -> *mut c_void {
    MEMORY.as_ptr() as *mut c_void
}

publish!(MEMBER, Registry {
    allocate: Some(allocate),
    ..Registry::new(b"rusty\0", 0, owns, free_block, usable_size)
});
