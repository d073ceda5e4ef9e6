//! Prepares a virtual environment with the Python package and the packages that its tests compare it with.
//!
//! In: the workspace. Out: the interpreter of `target/python-tests`. The library and the tool are built as the
//! workspace's tests build theirs, so that nothing of the engine is compiled twice; the package is installed as anybody
//! installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the environment is, below the target folder.
const ENVIRONMENT: &str = "python-tests";

/// The packages that the tests need beside ours: readers of Arrow, the checker of its types, the file systems that it
/// registers with, and the hash that the independent reader compares its own with.
const BESIDE: &[&str] = &["pytest", "mypy", "typing_extensions", "pyarrow", "polars", "duckdb", "fsspec", "xxhash"];

/// The oldest Python that the package runs on.
pub(crate) const OLDEST: (u32, u32) = (3, 10);

/// Features of the tool that its plain build does not have. All builds for tests have them, so that nothing is built twice.
pub(crate) const TOOL_FEATURES: &str = "waxseal-cli/serve,waxseal-cli/mount";

/// The same and those of libraries, for builds of the whole workspace.
pub(crate) const WORKSPACE_FEATURES: &str =
    "waxseal-cli/serve,waxseal-cli/mount,waxseal-corpus/pairtree,waxseal-papers/http,waxseal-papers/mount";

/// Returns the interpreter of the environment, which is made once; otherwise the error.
pub(crate) fn environment(root: &Path, python: &str) -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(|| make(root, python)).clone()
}

fn make(root: &Path, python: &str) -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let home = target.join(ENVIRONMENT);
    let interpreter = home.join("bin").join("python");
    let packages = ["waxseal-ffi", "waxseal-cli"];
    let mut build = Command::new(crate::cargo());
    build.args(["build", "--quiet", "--locked", "--profile", "test", "--features", TOOL_FEATURES]);
    build.current_dir(root);
    packages.iter().for_each(|package| {
        build.args(["-p", package]);
    });
    done("cargo build", &mut build)?;
    if !interpreter.exists() {
        done("venv", Command::new(python).args(["-m", "venv"]).arg(&home))?;
    }
    let pip = || {
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).current_dir(root);
        pip
    };
    done("pip install", pip().args(BESIDE))?;
    let mut package = pip();
    package.args(["--force-reinstall", "--no-deps", "./python"]);
    package.env("WAXSEAL_LIB_DIR", target.join("debug")).env("MATURIN_PEP517_ARGS", "--profile dev");
    done("pip install ./python", &mut package)?;
    Ok(interpreter)
}

/// Runs a program to its end.
fn done(name: &str, command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("{name} cannot be started: {error}")),
    }
}
