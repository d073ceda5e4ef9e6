//! `cargo xtask install --prefix DIR`: the C libraries where C programs look for them.
//!
//! In: the libraries, built here, their headers, and a pattern of the pkg-config file of each. Out, below DIR:
//!
//! ```text
//! include/waxseal.h                                                include/waxseal/leveldb/c.h
//! lib/libwaxseal.so -> libwaxseal.so.0 -> libwaxseal.so.0.1.0      lib/libwaxseal_leveldb.so -> ..
//! lib/libwaxseal.a                                                 lib/libwaxseal_leveldb.a
//! lib/pkgconfig/waxseal.pc                                         lib/pkgconfig/waxseal-leveldb.pc
//! ```
//!
//! With `--destdir` everything is put below that folder, as if it were the root: for whoever makes packages. Systems with ELF
//! libraries alone.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The number in the sonames: it changes when something is taken away from a header.
const INTERFACE: &str = "0";

/// A library to be installed.
struct Library {
    package: &'static str,
    folder: &'static str,
    /// Its file without `.so` or `.a`.
    file: &'static str,
    /// The header in the folder, and below the prefix.
    header: (&'static str, &'static str),
    /// The pkg-config file; its pattern has `.in` behind it.
    config: &'static str,
}

const LIBRARIES: &[Library] = &[
    Library {
        package: "waxseal-ffi",
        folder: "crates/ffi",
        file: "libwaxseal",
        header: ("include/waxseal.h", "include/waxseal.h"),
        config: "waxseal.pc",
    },
    Library {
        package: "waxseal-leveldb",
        folder: "crates/leveldb",
        file: "libwaxseal_leveldb",
        // Not where LevelDB's own header would be; the pkg-config file leads there.
        header: ("include/leveldb/c.h", "include/waxseal/leveldb/c.h"),
        config: "waxseal-leveldb.pc",
    },
];

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
    LIBRARIES.iter().try_for_each(|library| put(root, place, &built, library))
}

fn put(root: &Path, place: &Place, built: &Path, library: &Library) -> Result<(), String> {
    let Library { file, header: (header, installed_header), config, .. } = library;
    let (own, shared) = (root.join(library.folder), built.join(format!("{file}.so")));
    if !shared.exists() {
        return Err(format!("{} is not there: this system has no ELF libraries", shared.display()));
    }
    let version = env!("CARGO_PKG_VERSION");
    let pattern = own.join(format!("{config}.in"));
    let pattern = std::fs::read_to_string(&pattern).map_err(|error| format!("{}: {error}", pattern.display()))?;
    let page = pattern.replace("@prefix@", &place.prefix.display().to_string()).replace("@version@", version);
    let config_file = place.at(&format!("lib/pkgconfig/{config}"));
    for file in [&config_file, &place.at(installed_header)] {
        let folder = file.parent().unwrap_or(file);
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let (whole, soname) = (format!("{file}.so.{version}"), format!("{file}.so.{INTERFACE}"));
    copy(&own.join(header), &place.at(installed_header))?;
    copy(&shared, &place.at(&format!("lib/{whole}")))?;
    copy(&built.join(format!("{file}.a")), &place.at(&format!("lib/{file}.a")))?;
    link(&whole, &place.at(&format!("lib/{soname}")))?;
    link(&soname, &place.at(&format!("lib/{file}.so")))?;
    std::fs::write(&config_file, page).map_err(|error| format!("{}: {error}", config_file.display()))
}

/// Builds all of them and gives the folder in which they are.
fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new(crate::cargo());
    cargo.args(["build", "--quiet", "--locked", "--profile", profile]).current_dir(root);
    cargo.args(LIBRARIES.iter().flat_map(|library| ["-p", library.package]));
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
