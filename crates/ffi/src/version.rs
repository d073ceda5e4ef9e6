//! The version of the library.

use std::ffi::c_char;

/// Version of this header. It grows with every addition; the number in the soname changes only when a declaration is
/// removed.
pub const WAXSEAL_ABI_VERSION: u32 = 1;

/// The `WAXSEAL_ABI_VERSION` of the library. A program compiled with a smaller version runs with this library.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_abi_version() -> u32 {
    WAXSEAL_ABI_VERSION
}

/// The version of the library, as text: `0.1.0`. Valid as long as the library is loaded.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
