//! Names the shared library inside itself, so that programs ask for this interface and not for whatever stands in the
//! file.
//!
//! Beside the library in the build tree a link of that name is put, so that a program that was linked there also runs
//! there.

use std::path::Path;

const SONAME: &str = "libwaxseal.so.0";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if !matches!(system.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        return;
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // OUT_DIR is target/PROFILE/build/PACKAGE/out; the library stands in PROFILE, and first in PROFILE/deps.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Some(profile) = Path::new(&out).ancestors().nth(3) {
        for folder in [profile.to_path_buf(), profile.join("deps")] {
            #[cfg(unix)]
            let _ = std::os::unix::fs::symlink("libwaxseal.so", folder.join(SONAME)); // it may be there already
        }
    }
}
