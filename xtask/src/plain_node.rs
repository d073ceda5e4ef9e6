//! `cargo xtask plain-node DIR`: a node of an older make, built from history, for experiments with mixed clusters.
//!
//! In: this repository with its history. Out: the program `DIR/plain_node`. The tree of the old commit is unpacked
//! under `target/plain-node`, the one file of xtask/plain_node is put beside its engine, and both are built in a target
//! folder of their own, offline if need be: the old Cargo.lock is in the tree. Without that history (a shallow clone,
//! an exported tree) it prints one line and does nothing.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The engine as it stood when the core was finished, before it could check a seal: it reads and writes the same
/// format, carries companions without knowing them, and cannot import.
const COMMIT: &str = "40abfb6";

const PACKAGE: &str = "\
[package]
name = \"plain_node\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[dependencies]
waxseal-lsm = { path = \"../lsm\" }
";

pub(crate) fn run(root: &Path, into: &Path) -> ExitCode {
    match build(root, into) {
        Ok(Some(program)) => {
            println!("{program}");
            ExitCode::SUCCESS
        }
        Ok(None) => {
            println!("plain-node: skipped, commit {COMMIT} is not in the history here");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("plain-node: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the program and copies it; none without history.
fn build(root: &Path, into: &Path) -> Result<Option<String>, String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(arguments);
        command
    };
    let known = git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]).stderr(Stdio::null()).status();
    if !known.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let base = root.join("target/plain-node");
    let tree = base.join("tree");
    let io = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    if tree.exists() {
        std::fs::remove_dir_all(&tree).map_err(io("removing the old tree"))?;
    }
    std::fs::create_dir_all(tree.join("crates/plain_node/src")).map_err(io("making the tree"))?;
    let archive = base.join("tree.tar");
    let paths = ["Cargo.toml", "Cargo.lock", "crates/lsm"];
    let name = archive.display().to_string();
    ended(git(&["archive", "--format=tar", "-o", &name, COMMIT]).args(paths), "git archive")?;
    ended(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree), "tar")?;
    let manifest = std::fs::read_to_string(tree.join("Cargo.toml")).map_err(io("reading its Cargo.toml"))?;
    let is_members = |line: &&str| line.starts_with("members");
    let members = manifest.lines().find(is_members).ok_or("its Cargo.toml lists no members")?;
    let manifest = manifest.replace(members, "members = [\"crates/lsm\", \"crates/plain_node\"]");
    let manifest = manifest.replace("lto = \"thin\"", "lto = \"off\"");
    let source = std::fs::read_to_string(root.join("xtask/plain_node/main.rs")).map_err(io("reading main.rs"))?;
    for (file, text) in [
        ("Cargo.toml", manifest.as_str()),
        ("crates/plain_node/Cargo.toml", PACKAGE),
        ("crates/plain_node/src/main.rs", source.as_str()),
    ] {
        std::fs::write(tree.join(file), text).map_err(io(file))?;
    }
    let target = base.join("build");
    let mut cargo = Command::new(crate::cargo());
    cargo.args(["build", "--release", "-p", "plain_node"]).current_dir(&tree);
    cargo.env("CARGO_TARGET_DIR", &target);
    // First without the network; a machine that never built this workspace may need it.
    let offline = cargo.env("CARGO_NET_OFFLINE", "true").status();
    if !offline.is_ok_and(|status| status.success()) {
        ended(cargo.env_remove("CARGO_NET_OFFLINE"), "cargo build")?;
    }
    std::fs::create_dir_all(into).map_err(io("making the directory"))?;
    let program = into.join("plain_node");
    std::fs::copy(target.join("release/plain_node"), &program).map_err(io("copying the program"))?;
    Ok(Some(program.display().to_string()))
}

fn ended(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} ended with {status}")),
        Err(error) => Err(format!("{what} cannot be started: {error}")),
    }
}
