//! The page itself.

use std::process::Command;

use crate::Tally;
use crate::prototypes::{Prototype, prototypes};
use crate::toolchain::{STRICT, Toolchain, cargo, succeeded};

pub(crate) fn run(toolchain: &Toolchain, tally: &mut Tally) {
    for standard in ["c99", "c11", "c17"] {
        let name = format!("the header is clean {standard}");
        tally.count(&name, compiles(toolchain, &toolchain.cc, standard, "c"));
    }
    match &toolchain.cxx {
        Some(cxx) => {
            for standard in ["c++11", "c++17"] {
                let name = format!("the header is clean {standard}");
                tally.count(&name, compiles(toolchain, cxx, standard, "c++"));
            }
        }
        None => tally.skip("the header in C++", "C++ compiler"),
    }
    tally.count("the header is what its source makes", is_current(toolchain));
    let functions = header_text(toolchain).map(|text| prototypes(&text));
    tally.count("every function has its page", functions.and_then(|functions| have_pages(&functions)));
}

pub(crate) fn header_text(toolchain: &Toolchain) -> Result<String, String> {
    let path = toolchain.header_folder().join("waxseal.h");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compiles a file that includes the header twice and nothing else.
fn compiles(toolchain: &Toolchain, compiler: &str, standard: &str, language: &str) -> Result<(), String> {
    let source = toolchain.write("header_alone.c", "#include \"waxseal.h\"\n#include \"waxseal.h\"\n")?;
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(STRICT).args(["-fsyntax-only", "-x", language, "-I"]);
    succeeded(command.arg(toolchain.header_folder()).arg(source))
}

/// Asks the chore that makes it.
fn is_current(toolchain: &Toolchain) -> Result<(), String> {
    succeeded(cargo().args(["xtask", "header", "--check"]).current_dir(&toolchain.root))
}

/// A function says on its page from which threads it may be called; one that can fail says how, one that gives
/// something away says how that is ended.
fn have_pages(functions: &[Prototype]) -> Result<(), String> {
    let mut faults = Vec::new();
    for Prototype { name, parameters, page, .. } in functions {
        if !["Thread-safe", "One thread at a time"].iter().any(|words| page.contains(words)) {
            faults.push(format!("{name} does not say from which threads it may be called"));
        }
        let gives =
            parameters.iter().any(|parameter| parameter.ends_with("_t **") && parameter != "waxseal_error_t **");
        if gives && !["_destroy`", "`waxseal_close`"].iter().any(|end| page.contains(end)) {
            faults.push(format!("{name} does not say how what it gives is ended"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}
