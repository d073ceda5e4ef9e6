//! `cargo xtask header`: the C header, generated from the source of the library.
//!
//! In: crates/ffi/src and crates/ffi/cbindgen.toml. Out: crates/ffi/include/waxseal.h; with `--check` only whether it
//! is current. cbindgen generates it from a copy of the source below target/header, in which the tables of macros are
//! expanded (`tables`). One version of cbindgen makes the same header on every machine; it is built into `target/tools`
//! if it is missing. It is not a dependency: the repository contains the header.

pub(crate) mod tables;

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
    // Several processes may do this at a time.
    let copy = root.join(format!("target/header/{}", std::process::id()));
    expand(&root.join("crates/ffi/src"), &copy)?;
    let mut command = Command::new(cbindgen(root)?);
    command.arg("--quiet").arg("--config").arg(root.join("crates/ffi/cbindgen.toml")).arg(copy.join("lib.rs"));
    let output = command.output().map_err(|error| format!("cbindgen cannot be started: {error}"));
    let _ = std::fs::remove_dir_all(&copy); // a copy that stays does no harm
    let output = output?;
    if !output.status.success() {
        return Err(format!("cbindgen: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| "cbindgen wrote no text".to_owned())?;
    Ok(text.lines().map(|line| bracketed(line) + "\n").collect())
}

/// Copies a folder of sources with their tables expanded.
fn expand(from: &Path, to: &Path) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", to.display());
    std::fs::create_dir_all(to).map_err(fault)?;
    for entry in std::fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let path = entry.map_err(fault)?.path();
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            expand(&path, &place)?;
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let made = tables::expanded(&text).map_err(|what| format!("{}: {what}", path.display()))?;
        std::fs::write(&place, made).map_err(fault)?;
    }
    Ok(())
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
