//! `cargo xtask install --prefix DIR`: the C library where C programs look for it.
//!
//! In: the library, built here, its header, and a pattern of its pkg-config file. Out, below DIR:
//!
//! ```text
//! include/waxseal.h
//! lib/libwaxseal.so -> libwaxseal.so.0 -> libwaxseal.so.0.1.0
//! lib/libwaxseal.a
//! lib/pkgconfig/waxseal.pc
//! ```
//!
//! With `--destdir` everything is put below that folder, as if it were the root: for whoever makes packages. Systems with ELF
//! libraries alone.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The number in the soname: it changes when something is taken away from the header.
const SONAME: &str = "libwaxseal.so.0";

/// What the caller asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    prefix: PathBuf,
    destdir: Option<PathBuf>,
    /// Cargo's profile of the build.
    profile: String,
}

impl Place {
    /// Reads `--prefix DIR [--destdir DIR] [--profile NAME]`, in any order.
    pub(crate) fn parse(words: &[&str]) -> Option<Place> {
        let (mut prefix, mut destdir, mut profile) = (None, None, None);
        let mut pairs = words.chunks_exact(2);
        for pair in pairs.by_ref() {
            let before = match pair[0] {
                "--prefix" => prefix.replace(pair[1]),
                "--destdir" => destdir.replace(pair[1]),
                "--profile" => profile.replace(pair[1]),
                _ => return None,
            };
            if before.is_some() {
                return None;
            }
        }
        let prefix = PathBuf::from(prefix?);
        // What is relative would mean another place in the pkg-config file than here.
        let place =
            Place { prefix, destdir: destdir.map(PathBuf::from), profile: profile.unwrap_or("release").to_owned() };
        (pairs.remainder().is_empty() && place.prefix.is_absolute()).then_some(place)
    }

    /// Where a file of the installed tree is put now.
    fn at(&self, file: &str) -> PathBuf {
        let installed = self.prefix.join(file);
        match &self.destdir {
            Some(destdir) => destdir.join(installed.strip_prefix("/").unwrap_or(&installed)),
            None => installed,
        }
    }
}

pub(crate) fn run(root: &Path, place: &Place) -> ExitCode {
    match install(root, place) {
        Ok(()) => {
            println!("{}", place.at("").display());
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("install: {what}");
            ExitCode::FAILURE
        }
    }
}

fn install(root: &Path, place: &Place) -> Result<(), String> {
    let built = build(root, &place.profile)?;
    let shared = built.join("libwaxseal.so");
    if !shared.exists() {
        return Err(format!("{} is not there: this system has no ELF libraries", shared.display()));
    }
    let version = env!("CARGO_PKG_VERSION");
    let pattern = root.join("crates/ffi/waxseal.pc.in");
    let pattern = std::fs::read_to_string(&pattern).map_err(|error| format!("{}: {error}", pattern.display()))?;
    let config = pattern.replace("@prefix@", &place.prefix.display().to_string()).replace("@version@", version);
    for folder in ["include", "lib/pkgconfig"] {
        let folder = place.at(folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let whole = format!("libwaxseal.so.{version}");
    copy(&root.join("crates/ffi/include/waxseal.h"), &place.at("include/waxseal.h"))?;
    copy(&shared, &place.at(&format!("lib/{whole}")))?;
    copy(&built.join("libwaxseal.a"), &place.at("lib/libwaxseal.a"))?;
    link(&whole, &place.at(&format!("lib/{SONAME}")))?;
    link(SONAME, &place.at("lib/libwaxseal.so"))?;
    let config_file = place.at("lib/pkgconfig/waxseal.pc");
    std::fs::write(&config_file, config).map_err(|error| format!("{}: {error}", config_file.display()))
}

/// Builds both libraries and gives the folder in which they are.
fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new(crate::cargo());
    cargo.args(["build", "--quiet", "--locked", "-p", "waxseal-ffi", "--profile", profile]).current_dir(root);
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("cargo build ended with {status}")),
        Err(error) => return Err(format!("cargo cannot be started: {error}")),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    Ok(root.join(target).join(folder))
}

/// Copies a file beside its place and puts it there: a program that has the old one open keeps it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let fresh = to.with_extension("new");
    std::fs::copy(from, &fresh)
        .and_then(|_| std::fs::rename(&fresh, to))
        .map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

#[cfg(unix)]
fn link(to: &str, at: &Path) -> Result<(), String> {
    if at.symlink_metadata().is_ok() {
        std::fs::remove_file(at).map_err(|error| format!("{}: {error}", at.display()))?;
    }
    std::os::unix::fs::symlink(to, at).map_err(|error| format!("{}: {error}", at.display()))
}

#[cfg(not(unix))]
fn link(_: &str, at: &Path) -> Result<(), String> {
    Err(format!("{}: this system has no links", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let place = Place::parse(&["--destdir", "/stage", "--prefix", "/usr"]).unwrap();
        assert_eq!(place.at("lib/libwaxseal.a"), Path::new("/stage/usr/lib/libwaxseal.a"));
        assert_eq!(place.profile, "release");
        let plain = Place::parse(&["--prefix", "/opt/w", "--profile", "test"]).unwrap();
        assert_eq!(plain.at("include"), Path::new("/opt/w/include"));
        for wrong in [&["--prefix"][..], &[], &["--prefix", "usr"], &["--prefix", "/a", "--prefix", "/b"], &["/usr"]] {
            assert_eq!(Place::parse(wrong), None, "{wrong:?}");
        }
    }
}
