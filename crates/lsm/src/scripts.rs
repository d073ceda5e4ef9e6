//! Golden scripts: expected behavior as readable text. Test builds only.
//!
//! A file under `crates/lsm/scripts/<what>/` is a list of steps: input lines, `---`, expected output, an empty line.
//! Input lines that begin with `#` are comments. With `WAXSEAL_GOLDEN=1` the output is written instead of compared:
//! read the diff.

use std::path::Path;

/// Runs every script of a directory, each with a new state.
#[expect(clippy::disallowed_methods, reason = "scripts are files of the repository, read by tests only")]
pub(crate) fn run<S>(what: &str, fresh: impl Fn() -> S, step: impl Fn(&mut S, &str) -> String) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(what);
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", dir.display());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut state = fresh();
        let steps = text.split("\n\n").map(|step| step.trim_matches('\n')).filter(|step| !step.is_empty());
        let outcome = steps.map(|text| {
            let input = text.split("\n---").next().unwrap_or_default();
            let lines: Vec<&str> = input.lines().filter(|line| !line.starts_with('#')).collect();
            format!("{input}\n---\n{}", step(&mut state, &lines.join("\n")).trim_end())
        });
        let outcome = outcome.collect::<Vec<_>>().join("\n\n") + "\n";
        if std::env::var_os("WAXSEAL_GOLDEN").is_some() {
            std::fs::write(&path, outcome).unwrap();
        } else {
            assert_eq!(text, outcome, "{} tells another story; WAXSEAL_GOLDEN=1 rewrites it", path.display());
        }
    }
}

/// Returns the value of a `name=value` word in a line.
pub(crate) fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the number after `name=`, or a default.
pub(crate) fn number(line: &str, name: &str, otherwise: u64) -> u64 {
    word(line, name).map_or(otherwise, |value| value.parse().unwrap())
}
