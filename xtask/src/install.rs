//! `cargo xtask install --prefix DIR`: the C libraries and the tool where C programs, shells and `man` look for them.
//!
//! In: the libraries and the tool, built here with the profile `dist`, and the templates of their configuration files.
//!     Out, below DIR:
//!
//! ```text
//! include/waxseal.h                                                include/waxseal/leveldb/c.h
//! lib/libwaxseal.so -> libwaxseal.so.0 -> libwaxseal.so.0.1.0      lib/libwaxseal_leveldb.so -> ..
//! lib/libwaxseal.a                                                 lib/libwaxseal_leveldb.a
//! lib/pkgconfig/waxseal.pc, waxseal-static.pc                      lib/pkgconfig/waxseal-leveldb.pc
//! lib/cmake/Waxseal/WaxsealConfig.cmake, WaxsealConfigVersion.cmake
//! bin/waxseal                                                      share/man/man1/waxseal.1, waxseal-get.1, ..
//! share/bash-completion/completions/waxseal                        share/zsh/site-functions/_waxseal
//! share/fish/vendor_completions.d/waxseal.fish
//! ```
//!
//! Debug information stands beside each library and the tool, in files `*.debug` that debuggers find by themselves. It
//! stays inside where there is no `objcopy`. With `--destdir` everything is put below that folder, as if it were the
//! root, which is what package builders need. Systems with ELF libraries alone.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The number in the sonames: it changes when something is taken away from a header.
const INTERFACE: &str = "0";

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A library to be installed.
struct Library {
    package: &'static str,
    folder: &'static str,
    /// Its file without `.so` or `.a`.
    file: &'static str,
    /// The header in the folder, and below the prefix.
    header: (&'static str, &'static str),
    /// Configuration files: the template's name without `.in`, and the destination folder below the prefix.
    configs: &'static [(&'static str, &'static str)],
}

const LIBRARIES: &[Library] = &[
    Library {
        package: "waxseal-ffi",
        folder: "crates/ffi",
        file: "libwaxseal",
        header: ("include/waxseal.h", "include/waxseal.h"),
        configs: &[
            ("waxseal.pc", "lib/pkgconfig"),
            ("waxseal-static.pc", "lib/pkgconfig"),
            ("WaxsealConfig.cmake", "lib/cmake/Waxseal"),
            ("WaxsealConfigVersion.cmake", "lib/cmake/Waxseal"),
        ],
    },
    Library {
        package: "waxseal-leveldb",
        folder: "crates/leveldb",
        file: "libwaxseal_leveldb",
        // Not where LevelDB's own header would be; the pkg-config file leads there.
        header: ("include/leveldb/c.h", "include/waxseal/leveldb/c.h"),
        configs: &[("waxseal-leveldb.pc", "lib/pkgconfig")],
    },
];

/// The caller's choice.
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
        // A relative path would mean another place in the pkg-config file than here.
        let place =
            Place { prefix, destdir: destdir.map(PathBuf::from), profile: profile.unwrap_or("dist").to_owned() };
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
    LIBRARIES.iter().try_for_each(|library| put_library(root, place, &built, library))?;
    put_tool(place, &built)
}

fn put_library(root: &Path, place: &Place, built: &Path, library: &Library) -> Result<(), String> {
    let Library { file, header: (header, installed_header), configs, .. } = library;
    let (own, shared) = (root.join(library.folder), built.join(format!("{file}.so")));
    if !shared.exists() {
        return Err(format!("{} is not there: this system has no ELF libraries", shared.display()));
    }
    let (whole, soname) = (format!("{file}.so.{VERSION}"), format!("{file}.so.{INTERFACE}"));
    copy(&own.join(header), &place.at(installed_header))?;
    copy(&shared, &place.at(&format!("lib/{whole}")))?;
    split_debug(&place.at(&format!("lib/{whole}")))?;
    let archive = place.at(&format!("lib/{file}.a"));
    copy(&built.join(format!("{file}.a")), &archive)?;
    strip_archive(&archive)?;
    link(&whole, &place.at(&format!("lib/{soname}")))?;
    link(&soname, &place.at(&format!("lib/{file}.so")))?;
    configs.iter().try_for_each(|(name, folder)| {
        let template = own.join(format!("{name}.in"));
        let template =
            std::fs::read_to_string(&template).map_err(|error| format!("{}: {error}", template.display()))?;
        write(&place.at(&format!("{folder}/{name}")), filled(&template, place).as_bytes())
    })
}

/// Returns a template filled with the paths and versions of this installation.
fn filled(template: &str, place: &Place) -> String {
    let mut numbers = VERSION.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // The loader looks into the system's own folders by itself.
    let is_system = [Path::new("/usr"), Path::new("/")].contains(&place.prefix.as_path());
    template
        .replace("@prefix@", &place.prefix.display().to_string())
        .replace("@version@", VERSION)
        .replace("@major@", major)
        .replace("@minor@", minor)
        .replace("@rpath@", if is_system { "" } else { " -Wl,-rpath,${libdir}" })
}

/// The tool, what shells complete of it, and its manual pages, which it writes itself.
fn put_tool(place: &Place, built: &Path) -> Result<(), String> {
    let tool = built.join("waxseal");
    let installed = place.at("bin/waxseal");
    copy(&tool, &installed)?;
    split_debug(&installed)?;
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/waxseal"),
        ("zsh", "share/zsh/site-functions/_waxseal"),
        ("fish", "share/fish/vendor_completions.d/waxseal.fish"),
    ] {
        let script = printed(Command::new(&tool).args(["completions", shell]))?;
        write(&place.at(file), &script)?;
    }
    printed(Command::new(&tool).arg("man").arg(place.at("share/man/man1"))).map(drop)
}

/// Moves the debug information of a program or library into a file beside it, which debuggers find by the link left
/// behind.
fn split_debug(file: &Path) -> Result<(), String> {
    let debug = PathBuf::from(format!("{}.debug", file.display()));
    let mut keep = Command::new("objcopy");
    if printed(keep.arg("--only-keep-debug").arg(file).arg(&debug)).is_err() {
        println!("{}: debug information stays inside, since objcopy does not work here", file.display());
        return Ok(());
    }
    // By its bare name: the debugger looks beside the file.
    let mut strip = Command::new("objcopy");
    strip.current_dir(file.parent().unwrap_or(file)).arg("--strip-debug");
    let name = debug.file_name().unwrap_or_default().to_string_lossy().into_owned();
    printed(strip.arg(format!("--add-gnu-debuglink={name}")).arg(file)).map(drop)
}

/// Takes the debug information out of a static library, whose objects have no place beside them for it.
fn strip_archive(archive: &Path) -> Result<(), String> {
    if Command::new("objcopy").arg("--version").output().is_err() {
        return Ok(()); // said for the shared library
    }
    printed(Command::new("objcopy").arg("--strip-debug").arg(archive)).map(drop)
}

/// Returns the output of a program; an error if it fails.
fn printed(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn make_folder_of(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    make_folder_of(file)?;
    std::fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
}

/// Builds the libraries and the tool; returns the target folder.
fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new(crate::cargo());
    cargo.args(["build", "--quiet", "--locked", "--profile", profile]).current_dir(root);
    cargo.args(LIBRARIES.iter().flat_map(|library| ["-p", library.package])).args(["-p", "waxseal-cli"]);
    if profile == "test" {
        cargo.args(["--features", crate::python::TOOL_FEATURES]); // as all builds for tests
    }
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
    make_folder_of(to)?;
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
    fn templates_are_filled_for_their_place() {
        let at = |prefix: &str| {
            filled("@prefix@|@rpath@|@version@|@major@.@minor@", &Place::parse(&["--prefix", prefix]).unwrap())
        };
        assert_eq!(at("/opt/w"), format!("/opt/w| -Wl,-rpath,${{libdir}}|{VERSION}|0.1"));
        assert_eq!(at("/usr"), format!("/usr||{VERSION}|0.1"));
    }

    #[test]
    fn places_are_read() {
        let place = Place::parse(&["--destdir", "/stage", "--prefix", "/usr"]).unwrap();
        assert_eq!(place.at("lib/libwaxseal.a"), Path::new("/stage/usr/lib/libwaxseal.a"));
        assert_eq!(place.profile, "dist");
        let plain = Place::parse(&["--prefix", "/opt/w", "--profile", "test"]).unwrap();
        assert_eq!(plain.at("include"), Path::new("/opt/w/include"));
        for wrong in [&["--prefix"][..], &[], &["--prefix", "usr"], &["--prefix", "/a", "--prefix", "/b"], &["/usr"]] {
            assert_eq!(Place::parse(wrong), None, "{wrong:?}");
        }
    }
}
