//! The programs of tests/c: each counts its own tests and prints them as cargo does.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Tally;
use crate::toolchain::Toolchain;

/// Builds and runs the programs whose names contain `wanted`.
pub(crate) fn run(toolchain: &Toolchain, wanted: &str, tally: &mut Tally) {
    let folder = toolchain.root.join("crates/ffi/tests/c");
    let sources = match sources(&folder) {
        Ok(sources) => sources,
        Err(why) => return tally.count("the programs are found", Err(why)),
    };
    for source in sources {
        let name = source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if name.contains(wanted) {
            run_one(toolchain, &source, &name, tally);
        }
    }
}

pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    Ok(sources)
}

fn run_one(toolchain: &Toolchain, source: &Path, name: &str, tally: &mut Tally) {
    println!("   {name}.c");
    let program = match toolchain.program(&[source.to_path_buf()], name, toolchain.sanitizers) {
        Ok(program) => program,
        Err(why) => return tally.count(&format!("{name}.c compiles"), Err(why)),
    };
    let folder = toolchain.scratch.path().join(format!("{name}.d"));
    let output = std::fs::create_dir_all(&folder)
        .and_then(|()| Command::new(program).env("WAXSEAL_TEST_DIR", &folder).current_dir(&folder).output());
    let output = match output {
        Ok(output) => output,
        Err(error) => return tally.count(&format!("{name}.c runs"), Err(error.to_string())),
    };
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let count =
        |end: &str| lines.lines().filter(|line| line.starts_with("test ") && line.ends_with(end)).count() as u64;
    let (passed, failed) = (count(" ... ok"), count(" ... FAILED"));
    tally.passed += passed;
    tally.failed += failed;
    if !output.status.success() && failed == 0 {
        tally.count(&format!("{name}.c ends well"), Err(format!("it ended with {}", output.status)));
    } else if passed + failed == 0 {
        tally.count(&format!("{name}.c has tests"), Err("it counted none".to_owned()));
    }
}
