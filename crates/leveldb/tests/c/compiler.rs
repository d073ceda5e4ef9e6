//! Compilers, and programs that are made by them and run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

/// What a program is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C99,
    Cpp17,
}

/// A compiler that is there, with what it is always told.
pub(crate) struct Compiler {
    command: String,
    arguments: Vec<&'static str>,
    pub(crate) is_sanitizing: bool,
}

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Werror", "-pedantic", "-D_DEFAULT_SOURCE", "-D_GNU_SOURCE"];
const SANITIZERS: &[&str] = &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

impl Compiler {
    /// The compiler of a language, C99 with the sanitizers if it has them. `None`, with a line on standard output, if
    /// there is none. Panics then in CI.
    pub(crate) fn find(language: Language) -> Option<Compiler> {
        let mut compiler = Compiler::plain(language)?;
        if language == Language::C99 {
            let sanitizing = Compiler { arguments: [&compiler.arguments[..], SANITIZERS].concat(), ..compiler };
            match sanitizing.can_make_a_program() {
                true => return Some(Compiler { is_sanitizing: true, ..sanitizing }),
                false => skipped("sanitizers", &format!("sanitizer of {:?}", sanitizing.command)),
            }
            compiler = Compiler::plain(language)?;
        }
        Some(compiler)
    }

    /// The same without sanitizers.
    pub(crate) fn plain(language: Language) -> Option<Compiler> {
        let (variable, usual, standard) = match language {
            Language::C99 => ("CC", "cc", ["-std=c99", "-xc"]),
            Language::Cpp17 => ("CXX", "c++", ["-std=c++17", "-xc++"]),
        };
        let command = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
        let arguments = [&standard, WARNINGS].concat();
        let compiler = Compiler { command, arguments, is_sanitizing: false };
        if !compiler.can_make_a_program() {
            let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
            assert!(!ci, "CI has no {language:?} compiler {:?}", compiler.command);
            skipped(&format!("{language:?} programs"), &format!("compiler {:?}", compiler.command));
            return None;
        }
        Some(compiler)
    }

    fn can_make_a_program(&self) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("empty.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let program = dir.path().join("empty");
        let made = self.command().arg(&source).arg("-o").arg(&program).output();
        made.is_ok_and(|made| made.status.success()) && Command::new(&program).status().is_ok_and(|ran| ran.success())
    }

    /// A call of it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.arguments).arg("-I").arg(package().join("include"));
        command
    }

    /// Makes a program of a source of this folder, linked with the shared library.
    pub(crate) fn build(&self, name: &str, into: &Path) -> PathBuf {
        let program = into.join(name);
        let source = folder().join(format!("{name}.c"));
        let mut command = self.command();
        command.arg(source).arg("-o").arg(&program).arg("-L").arg(libraries());
        must_succeed(command.args(["-lwaxseal_leveldb", "-lpthread"]));
        program
    }
}

/// Prints, once, what is skipped; past the test harness, which keeps the output of tests that pass.
pub(crate) fn skipped(what: &str, missing: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("{what}: skipped, there is no {missing} here");
    if TOLD.lock().unwrap().insert(line.clone()) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Makes a program and runs it in a folder of its own.
pub(crate) fn run(compiler: &Compiler, name: &str) {
    let dir = TempDir::new().unwrap();
    let program = compiler.build(name, dir.path());
    let output = start(&program, dir.path(), compiler.is_sanitizing).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(" checks\n"), "{}", said(&output));
}

/// A program about to be started, with a folder to fill.
pub(crate) fn start(program: &Path, dir: &Path, is_sanitized: bool) -> Command {
    let stores = dir.join("stores");
    let _ = std::fs::remove_dir_all(&stores);
    std::fs::create_dir(&stores).unwrap();
    let mut command = Command::new(program);
    command.arg(&stores).env("LD_LIBRARY_PATH", libraries()).env_remove("ASAN_OPTIONS");
    if is_sanitized {
        command.env("ASAN_OPTIONS", "detect_leaks=1").env("UBSAN_OPTIONS", "print_stacktrace=1");
    }
    command
}

/// The folder of this package's libraries. They are built once, with the profile of this test: cargo builds no shared
/// or static library for the tests of its own package.
pub(crate) fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf();
        let profile = if folder.file_name() == Some(OsStr::new("release")) { "release" } else { "test" };
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "-p", "waxseal-leveldb", "--profile", profile, "--target-dir"]);
        must_succeed(cargo.arg(folder.parent().unwrap()).current_dir(package()));
        folder
    };
    BUILT.get_or_init(build).clone()
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// This folder.
pub(crate) fn folder() -> PathBuf {
    package().join("tests/c")
}

pub(crate) fn must_succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", said(&output));
    output
}

/// What a program has printed.
pub(crate) fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    format!("{}\n{text}", output.status)
}
