//! A staged install, as a package would have it, and programs that find it by pkg-config.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Tally;
use crate::programs::sources;
use crate::toolchain::{STRICT, Toolchain, cargo, output_of, succeeded};

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    let prefix = toolchain.scratch.path().join("installed");
    let installed = install(toolchain, &prefix, None);
    let failed = installed.is_err();
    tally.count("the library is installed", installed.and_then(|()| is_whole(&prefix)));
    tally.count("the library is staged for a package", staged(toolchain));
    if failed {
        return;
    }
    if Command::new("pkg-config").arg("--version").output().is_err() {
        println!("the examples: skipped, there is no pkg-config here");
        return;
    }
    let examples = match sources(&toolchain.root.join("crates/ffi/examples")) {
        Ok(examples) => examples,
        Err(why) => return tally.count("the examples are found", Err(why)),
    };
    if let Some(example) = examples.first() {
        tally.count("an example runs, found by CMake", runs_with_cmake(toolchain, &prefix, example));
    }
    for example in examples {
        let name = example.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        tally.count(
            &format!("example {name} runs, linked with the shared library"),
            runs(toolchain, &prefix, &example, false),
        );
        tally.count(
            &format!("example {name} runs, linked with the static library"),
            runs(toolchain, &prefix, &example, true),
        );
    }
}

fn install(toolchain: &Toolchain, prefix: &Path, destdir: Option<&Path>) -> Result<(), String> {
    let profile = if toolchain.built.ends_with("release") { "release" } else { "test" };
    let mut command = cargo();
    command.args(["xtask", "install", "--profile", profile, "--prefix"]).arg(prefix).current_dir(&toolchain.root);
    if let Some(destdir) = destdir {
        command.arg("--destdir").arg(destdir);
    }
    succeeded(&mut command)
}

const FILES: &[&str] = &[
    "include/waxseal.h",
    "lib/libwaxseal.so",
    "lib/libwaxseal.so.0",
    "lib/libwaxseal.a",
    "lib/pkgconfig/waxseal.pc",
    "include/waxseal/leveldb/c.h",
    "lib/libwaxseal_leveldb.so",
    "lib/libwaxseal_leveldb.so.0",
    "lib/libwaxseal_leveldb.a",
    "lib/pkgconfig/waxseal-leveldb.pc",
    "lib/pkgconfig/waxseal-static.pc",
    "lib/cmake/Waxseal/WaxsealConfig.cmake",
    "lib/cmake/Waxseal/WaxsealConfigVersion.cmake",
    "bin/waxseal",
    "share/man/man1/waxseal.1",
    "share/man/man1/waxseal-verify.1",
    "share/bash-completion/completions/waxseal",
    "share/zsh/site-functions/_waxseal",
    "share/fish/vendor_completions.d/waxseal.fish",
];

fn is_whole(prefix: &Path) -> Result<(), String> {
    let missing: Vec<&&str> = FILES.iter().filter(|file| !prefix.join(file).exists()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("missing below {}: {missing:?}", prefix.display())) }
}

/// A package's tree names the place where it will be, not the one where it was put together.
fn staged(toolchain: &Toolchain) -> Result<(), String> {
    let stage = toolchain.scratch.path().join("stage");
    install(toolchain, Path::new("/usr"), Some(&stage))?;
    is_whole(&stage.join("usr"))?;
    let config = stage.join("usr/lib/pkgconfig/waxseal.pc");
    let text = std::fs::read_to_string(&config).map_err(|error| format!("{}: {error}", config.display()))?;
    if text.lines().any(|line| line == "prefix=/usr") { Ok(()) } else { Err(text) }
}

/// Compiles an example as its users would, and runs it in an empty folder.
fn runs(toolchain: &Toolchain, prefix: &Path, example: &Path, linked_statically: bool) -> Result<(), String> {
    // The flags of the README's lines: nothing else tells the program where the library is.
    let package = if linked_statically { "waxseal-static" } else { "waxseal" };
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", package]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = String::from_utf8_lossy(&output_of(&mut pkg_config)?.stdout).into_owned();
    let name = example.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = toolchain.scratch.path().join(format!("example_{name}_{linked_statically}"));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program: PathBuf = folder.join("program");
    let mut cc = Command::new(&toolchain.cc);
    cc.arg("-std=c99").args(STRICT).arg(example).arg("-o").arg(&program).args(flags.split_whitespace());
    succeeded(&mut cc)?;
    succeeded(Command::new(&program).current_dir(&folder))
}

/// Builds an example by CMake's `find_package`, with the shared and with the static library, and runs it.
fn runs_with_cmake(toolchain: &Toolchain, prefix: &Path, example: &Path) -> Result<(), String> {
    if Command::new("cmake").arg("--version").output().is_err() {
        println!("CMake: skipped, there is no cmake here");
        return Ok(());
    }
    let folder = toolchain.scratch.path().join("cmake");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let project = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(start C)\nset(CMAKE_C_STANDARD 99)\nfind_package(Waxseal 0.1 REQUIRED)\n\
         add_executable(shared {0})\ntarget_link_libraries(shared Waxseal::waxseal)\n\
         add_executable(static {0})\ntarget_link_libraries(static Waxseal::waxseal_static)\n",
        example.display()
    );
    std::fs::write(folder.join("CMakeLists.txt"), project).map_err(|error| error.to_string())?;
    let mut configure = Command::new("cmake");
    configure.args(["-S", ".", "-B", "build"]).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DCMAKE_C_COMPILER={}", toolchain.cc));
    succeeded(configure.current_dir(&folder))?;
    succeeded(Command::new("cmake").args(["--build", "build"]).current_dir(&folder))?;
    for program in ["shared", "static"] {
        let run_in = folder.join(format!("run_{program}"));
        std::fs::create_dir_all(&run_in).map_err(|error| format!("{}: {error}", run_in.display()))?;
        succeeded(Command::new(folder.join("build").join(program)).current_dir(&run_in))?;
    }
    Ok(())
}
