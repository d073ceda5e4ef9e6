//! What the library exports.
//!
//! `symbols.txt` is the promise to programs that are linked already: a line that goes asks for another soname.

use std::collections::BTreeSet;
use std::process::Command;

use crate::Tally;
use crate::header::header_text;
use crate::prototypes::prototypes;
use crate::toolchain::{Toolchain, output_of};

const LIST: &str = "crates/ffi/symbols.txt";

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    if Command::new("nm").arg("--version").output().is_err() {
        println!("symbols: skipped, there is no nm here");
        return;
    }
    let compared = exported(toolchain).and_then(|exported| {
        tally.count("the library exports what the header declares", declared(toolchain, &exported));
        listed(toolchain, &exported)
    });
    tally.count("the library exports what symbols.txt lists", compared);
}

/// Functions of the shared library that programs can be linked with.
fn exported(toolchain: &Toolchain) -> Result<BTreeSet<String>, String> {
    let mut nm = Command::new("nm");
    let output = output_of(nm.args(["-D", "--defined-only"]).arg(toolchain.built.join("libwaxseal.so")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect())
}

fn declared(toolchain: &Toolchain, exported: &BTreeSet<String>) -> Result<(), String> {
    let declared = prototypes(&header_text(toolchain)?).into_iter().map(|function| function.name).collect();
    same(exported, &declared, "the header")
}

fn listed(toolchain: &Toolchain, exported: &BTreeSet<String>) -> Result<(), String> {
    let text = std::fs::read_to_string(toolchain.root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let listed = text.lines().map(str::to_owned).collect();
    same(exported, &listed, LIST)
}

fn same(exported: &BTreeSet<String>, expected: &BTreeSet<String>, place: &str) -> Result<(), String> {
    let more = exported.difference(expected).map(|name| format!("{name} is exported and not in {place}"));
    let less = expected.difference(exported).map(|name| format!("{name} is in {place} and not exported"));
    let faults: Vec<String> = more.chain(less).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}
