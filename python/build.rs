//! Links the extension to the C library, which is installed next to it in the package.
//!
//! `WAXSEAL_LIB_DIR` names the directory of `libwaxseal.so`; the package's build sets it. Without it, as in a check of
//! the workspace, the library's symbols stay undefined, as Python's do: the extension compiles, but cannot be loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WAXSEAL_LIB_DIR");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match std::env::var("WAXSEAL_LIB_DIR") {
        Ok(folder) => {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-cdylib-link-arg=-lwaxseal");
            let beside = if system == "macos" { "@loader_path/_lib" } else { "$ORIGIN/_lib" };
            println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,{beside}");
        }
        Err(_) if system == "macos" => {
            println!("cargo:rustc-cdylib-link-arg=-undefined");
            println!("cargo:rustc-cdylib-link-arg=dynamic_lookup");
        }
        Err(_) => {}
    }
}
