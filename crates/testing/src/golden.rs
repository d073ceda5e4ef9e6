//! Golden scripts: expected behavior as readable text.
//!
//! A script is a list of steps: input lines, `---`, expected output, an empty line. Input lines that begin with `#` are
//! comments. With `WAXSEAL_GOLDEN=1` the output is written instead of compared: read the diff.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Runs every script of a directory, each with a new state, and reports all scripts whose output differs.
///
/// # Panics
///
/// If the directory has no scripts, or the output of one differs.
#[expect(clippy::disallowed_methods, reason = "scripts are files of the repository, read by tests only")]
pub fn run<S>(dir: impl AsRef<Path>, fresh: impl Fn() -> S, step: impl Fn(&mut S, &str) -> String) {
    let dir = dir.as_ref();
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", dir.display());
    let mut different = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let mut state = fresh();
        let steps = text.split("\n\n").map(|step| step.trim_matches('\n')).filter(|step| !step.is_empty());
        let outcome = steps.map(|text| {
            let input = text.split("\n---").next().unwrap_or_default();
            let lines: Vec<&str> = input.lines().filter(|line| !line.starts_with('#')).collect();
            format!("{input}\n---\n{}", step(&mut state, &lines.join("\n")).trim_end())
        });
        let outcome = outcome.collect::<Vec<_>>().join("\n\n") + "\n";
        if std::env::var_os("WAXSEAL_GOLDEN").is_some() {
            fs::write(&path, outcome).unwrap();
        } else if text != outcome {
            different.push(format!("{}\nexpected:\n{text}\noutput:\n{outcome}", path.display()));
        }
    }
    assert!(different.is_empty(), "WAXSEAL_GOLDEN=1 rewrites these:\n{}", different.join("\n"));
}

/// Writes files in hex, each behind a line with its name and length; rows of zeros are left out.
pub fn hex_of(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut text = String::new();
    for (name, bytes) in files {
        writeln!(text, "# {name}, {} bytes", bytes.len()).unwrap();
        for (row, line) in bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown = |byte: &u8| if (32..127).contains(byte) { *byte as char } else { '.' };
            let ascii: String = line.iter().map(shown).collect();
            let line = format!("{:06x}  {:<47}  {ascii}", row * 16, hex.join(" "));
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
    }
    text
}

/// Returns the files of a text that `hex_of` has written.
pub fn files_of(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some((of, length)) = line.strip_prefix("# ").and_then(|line| line.split_once(", ")) {
            of.clone_into(&mut name);
            files.insert(name.clone(), vec![0; length.trim_end_matches(" bytes").parse().unwrap()]);
            continue;
        }
        let at = usize::from_str_radix(&line[..6], 16).unwrap();
        for (n, byte) in line[8..55].split_whitespace().enumerate() {
            files.get_mut(&name).unwrap()[at + n] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
    files
}

/// Returns the value of a `name=value` word in a line.
pub fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the number after `name=`, or a default.
pub fn number(line: &str, name: &str, otherwise: u64) -> u64 {
    word(line, name).map_or(otherwise, |value| value.parse().unwrap())
}
