//! `cargo xtask header`: the C header, made from the source of the library.
//!
//! In: crates/ffi/src and crates/ffi/cbindgen.toml. Out: crates/ffi/include/waxseal.h, or with `--check` only whether it is what would be
//! made. cbindgen does it, in one version, so that every machine makes the same page; it is built into `target/tools` when it is
//! missing. It is no dependency: whoever builds the library has the header.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const CBINDGEN: &str = "0.29.4";

const HEADER: &str = "crates/ffi/include/waxseal.h";

pub(crate) fn run(root: &Path, check: bool) -> ExitCode {
    let done = if check { is_current(root) } else { write(root).map(|()| true) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("{HEADER} is not what its source makes: run `cargo xtask header`");
            ExitCode::FAILURE
        }
        Err(what) => {
            eprintln!("header: {what}");
            ExitCode::FAILURE
        }
    }
}

fn write(root: &Path) -> Result<(), String> {
    std::fs::write(root.join(HEADER), made(root)?).map_err(|error| format!("{HEADER}: {error}"))
}

/// True if the committed header is what the source makes.
pub(crate) fn is_current(root: &Path) -> Result<bool, String> {
    let there = std::fs::read_to_string(root.join(HEADER)).map_err(|error| format!("{HEADER}: {error}"))?;
    Ok(there == made(root)?)
}

fn made(root: &Path) -> Result<String, String> {
    let package = root.join("crates/ffi");
    let mut command = Command::new(cbindgen(root)?);
    command
        .arg("--quiet")
        .arg("--config")
        .arg(package.join("cbindgen.toml"))
        .arg("--lockfile")
        .arg(root.join("Cargo.lock"));
    command.args(["--crate", "waxseal-ffi"]).arg(&package).current_dir(root);
    let output = command.output().map_err(|error| format!("cbindgen cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cbindgen: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| "cbindgen wrote no text".to_owned())?;
    Ok(text.lines().map(|line| bracketed(line) + "\n").collect())
}

/// A negative number in a macro gets its brackets: it must stay one number wherever it is put.
fn bracketed(line: &str) -> String {
    match line.rsplit_once(' ') {
        Some((start, number)) if line.starts_with("#define ") && number.starts_with('-') => {
            format!("{start} ({number})")
        }
        _ => line.to_owned(),
    }
}

/// The program, built if need be.
fn cbindgen(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/cbindgen");
    let version = Command::new(&program).arg("--version").output();
    let is_ours = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(CBINDGEN));
    if !is_ours {
        eprintln!("header: building cbindgen {CBINDGEN}");
        let mut install = Command::new(crate::cargo());
        install.args([
            "install",
            "cbindgen",
            "--version",
            CBINDGEN,
            "--locked",
            "--debug",
            "--quiet",
            "--force",
            "--root",
        ]);
        let status = install.arg(&tools).status().map_err(|error| format!("cargo cannot be started: {error}"))?;
        if !status.success() {
            return Err(format!("cbindgen {CBINDGEN} cannot be installed"));
        }
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_get_brackets() {
        assert_eq!(bracketed("#define WAXSEAL_IO -2"), "#define WAXSEAL_IO (-2)");
        assert_eq!(bracketed("#define WAXSEAL_OK 0"), "#define WAXSEAL_OK 0");
        assert_eq!(bracketed(" * from -1"), " * from -1");
    }
}
