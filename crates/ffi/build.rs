//! Names the shared library inside itself, so that programs ask for this interface and not for whatever stands in the file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(system.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libwaxseal.so.0");
    }
}
