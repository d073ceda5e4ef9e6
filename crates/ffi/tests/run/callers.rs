//! The script of tests/callers, carried out in C: the answers are those that Rust gives, line by line.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Tally;
use crate::toolchain::Toolchain;

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    tally.count("C answers as Rust does", answers(toolchain));
}

fn answers(toolchain: &Toolchain) -> Result<(), String> {
    let folder = toolchain.root.join("tests/callers");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let program = toolchain.program(&[folder.join("script.c")], "script", toolchain.sanitizers)?;
    let store = toolchain.scratch.path().join("script.store");
    let found = carried_out(&program, &store, &read("script")?).map_err(|error| format!("script: {error}"))?;
    let (expected, found) = (read("answers")?, found);
    let differ = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    match differ {
        Some((expected, found)) => Err(format!("expected {expected}\n   found {found}")),
        None if expected.lines().count() != found.lines().count() => Err("it says more, or less".to_owned()),
        None => Ok(()),
    }
}

fn carried_out(program: &Path, store: &Path, script: &str) -> std::io::Result<String> {
    let mut child = Command::new(program).arg(store).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    let done = child.wait_with_output()?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(std::io::Error::other(format!("it ended with {}", done.status))),
    }
}
